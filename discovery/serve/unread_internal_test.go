package serve

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

// What is missing of a registry that the server has not read stays until the server has read it.
func TestWhatIsMissingOfAnUnreadRegistryStays(t *testing.T) {
	t.Parallel()
	kind, ok := kinds.Lookup("networking.istio.io", "ServiceEntry")
	require.True(t, ok)
	resource := func(name, origin string) *kinds.Resource {
		return &kinds.Resource{Kind: kind, Namespace: "shop", Name: name, Annotations: map[string]string{kinds.OriginAnnotation: origin}}
	}
	u := newUnread()
	is := func(changes []kinds.Change, notRead map[string]bool, want ...string) {
		t.Helper()
		var names []string
		for _, c := range u.believed(changes, notRead) {
			name := c.Key.Name
			if c.Resource == nil {
				name = "no " + name
			}
			names = append(names, name)
		}
		require.ElementsMatch(t, want, names)
	}
	set := func(r *kinds.Resource) kinds.Change { return kinds.Change{Key: r.Key(), Resource: r} }
	gone := func(r *kinds.Resource) kinds.Change { return kinds.Change{Key: r.Key()} }
	a, b, c := resource("a", "far"), resource("b", "far"), resource("c", "near")
	own := &kinds.Resource{Kind: kind, Namespace: "shop", Name: "own"}
	unread := map[string]bool{"far": true}

	is([]kinds.Change{set(a), set(b), set(c), set(own)}, nil, "a", "b", "c", "own")
	is([]kinds.Change{gone(a), gone(b), gone(c), gone(own)}, unread, "no c", "no own")
	require.Equal(t, "2 resources of registries stay that the server has not read since it was started", u.about("the server"))
	is([]kinds.Change{set(b)}, unread, "b")
	is(nil, unread)
	is(nil, nil, "no a")
	require.Empty(t, u.about("the server"))
	is([]kinds.Change{gone(b)}, nil, "no b")
	is(nil, nil)
	require.Empty(t, u.has)
}

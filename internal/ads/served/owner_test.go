package served_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func TestAnOwnerHasWhatIsNamedAfterIt(t *testing.T) {
	t.Parallel()
	var all []*served.Resource
	for _, name := range []string{"80", "80/a", "80/b", "80/b/c", "80-/d", "81/a", "/e"} {
		all = append(all, &served.Resource{Name: name})
	}
	for owner, owns := range map[string][]string{"80": {"80/a", "80/b"}, "80/b": {"80/b/c"}, "81": {"81/a"}, "": {"/e"}, "8": nil} {
		var names []string
		for r := range served.NewSet(all...).OwnedBy(owner) {
			require.Equal(t, owner, served.OwnerOf(r.Name))
			names = append(names, r.Name)
		}
		require.Equal(t, owns, names, owner)
	}
	for range (*served.Set)(nil).OwnedBy("80") {
		require.Fail(t, "nothing owns nothing")
	}
}

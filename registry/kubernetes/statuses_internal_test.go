package kubernetes

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// seen is an object of the cluster, as its list tells it.
func seen(s *statuses, key kinds.Key, generation int64, version string) *kinds.Resource {
	r := &kinds.Resource{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}
	o := &configObject{}
	o.Metadata.Generation, o.Metadata.ResourceVersion = generation, version
	s.saw(key, o, r, nil)
	return r
}

// A kind without a status of its own is left alone, and so is one of another shape that nobody knows.
func TestKindsWithoutConditionsAreLeftAlone(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := newStatuses(slog.New(slog.NewTextHandler(&log, nil)))
	vs, _ := kinds.Lookup("networking.istio.io", "VirtualService")
	route, _ := kinds.Lookup("gateway.networking.k8s.io", "HTTPRoute")
	for range 2 {
		s.know(vs, "v1", false)
		s.know(route, "v1", true)
	}
	s.begin()
	accepted := []registry.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted"}}
	one := seen(s, kinds.Key{Kind: vs, Namespace: "shop", Name: "one"}, 1, "7")
	s.want([]registry.Status{{Resource: one, Conditions: accepted}, {Resource: seen(s, kinds.Key{Kind: route, Namespace: "shop", Name: "one"}, 1, "8"), Conditions: accepted}})
	require.Zero(t, s.writes().Waiting)
	require.Equal(t, 1, strings.Count(log.String(), "lacks subresources.status"))

	s.know(vs, "v1", true) // its definition was corrected
	require.Equal(t, 1, s.writes().Waiting)
}

// Conditions of an old state of an object are not written for its new state.
func TestStatusesAreOfTheStateThatTheyAreAbout(t *testing.T) {
	t.Parallel()
	s := newStatuses(slog.New(slog.DiscardHandler))
	vs, _ := kinds.Lookup("networking.istio.io", "VirtualService")
	key := kinds.Key{Kind: vs, Namespace: "shop", Name: "one"}
	s.know(vs, "v1", true)
	s.begin()
	before := seen(s, key, 1, "7")
	after := seen(s, key, 2, "9")
	accepted := []registry.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted"}}
	s.want([]registry.Status{{Resource: before, Conditions: accepted}})
	require.Zero(t, s.writes().Waiting)
	s.want([]registry.Status{{Resource: after, Conditions: accepted}})
	require.Equal(t, 1, s.writes().Waiting)
	w := &writer{statuses: s}
	o := s.objects[key]
	c, some := w.prepare(o)
	require.True(t, some)
	require.Equal(t, "/apis/networking.istio.io/v1/namespaces/shop/virtualservices/one/status", c.path)
	require.Contains(t, string(c.body), `"resourceVersion":"9"`)
	require.Contains(t, string(c.body), `"observedGeneration":2`)
	s.forget(key)
	_, some = w.prepare(o)
	require.False(t, some, "it is gone")
}

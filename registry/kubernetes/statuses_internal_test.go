package kubernetes

import (
	"log/slog"
	"strings"
	"testing"
	"time"

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

// What will be outdated in a moment is not written, unless it lasts. What comes of it is written at once.
func TestAStatusThatIsSoonOutdatedWaits(t *testing.T) {
	t.Parallel()
	s := newStatuses(slog.New(slog.DiscardHandler))
	vs, _ := kinds.Lookup("networking.istio.io", "VirtualService")
	key := kinds.Key{Kind: vs, Namespace: "shop", Name: "one"}
	s.know(vs, "v1", true)
	s.begin()
	r := seen(s, key, 1, "7")
	tells := func(status, reason, message string) {
		s.want([]registry.Status{{Resource: r, Conditions: []registry.Condition{{Type: "Programmed", Status: status, Reason: reason, Message: message}}}})
	}
	begun := time.Now()
	tells("Unknown", "NoProxies", "")
	tells("False", "Pending", "0 of 2")
	o, at := s.next(time.Now())
	require.Nil(t, o)
	require.WithinRange(t, at, begun.Add(settleTime), time.Now().Add(settleTime))
	tells("False", "Pending", "1 of 2")
	_, again := s.next(time.Now())
	require.Equal(t, at, again, "it waits no longer for having changed")
	o, _ = s.next(at)
	require.NotNil(t, o, "it has lasted")

	s.due = append(s.due, o)
	tells("True", "Programmed", "2 of 2")
	o, _ = s.next(time.Now())
	require.NotNil(t, o)
	c, some := (&writer{statuses: s}).prepare(o)
	require.True(t, some)
	require.Contains(t, string(c.body), "2 of 2")
}

// Of many routes at once, what their Gateway says of them is written first.
func TestGatewaysAreWrittenBeforeRoutes(t *testing.T) {
	t.Parallel()
	s := newStatuses(slog.New(slog.DiscardHandler))
	keyOf := func(kind, name string) kinds.Key {
		k, known := kinds.Lookup("gateway.networking.k8s.io", kind)
		require.True(t, known)
		s.know(k, "v1", true)
		return kinds.Key{Kind: k, Namespace: "shop", Name: name}
	}
	own := []byte(`{"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted"}]}`)
	parents := []byte(`{"parents": [{"controllerName": "pgmesh.io/gateway-controller", "parentRef": {"name": "edge"}, "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted"}]}]}`)
	s.begin()
	gateway := registry.Status{Resource: seen(s, keyOf("Gateway", "edge"), 1, "1"), Own: own}
	routes := make([]registry.Status, 0, 3)
	for _, name := range []string{"a", "b", "c"} {
		routes = append(routes, registry.Status{Resource: seen(s, keyOf("HTTPRoute", name), 1, "2"), Own: parents})
	}
	s.want([]registry.Status{routes[0], gateway, routes[1], routes[2]})
	require.Equal(t, 4, s.writes().Waiting)
	var names []string
	for range 4 {
		o, _ := s.next(time.Now())
		require.NotNil(t, o)
		names = append(names, o.key.Name)
	}
	require.Equal(t, []string{"edge", "c", "b", "a"}, names)
}

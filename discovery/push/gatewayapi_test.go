package push_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// A listener that gets hosts from routes finds them one by one from the beginning: it is never
// replaced, however many routes come, and each of them is one resource.
func TestAListenerIsNotReplacedWhenRoutesCome(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.DivideByHostsFrom(push.ScopedFrom)
	b.apply(t, apiGateway+"---"+serviceOf(0, 1))
	s := b.connect(t, apiRouter(), true)
	require.Equal(t, []string{"http.80"}, foundByHost(s))
	listeners := s.Snapshot().Sets[push.ListenerType]
	for i := range push.ScopedFrom + 3 {
		before := s.Snapshot().Sets[push.ScopedRouteType]
		b.apply(t, httpRoute(i, 0))
		require.Equal(t, []string{fmt.Sprintf("http.80/r%d.example.com", i)}, s.Snapshot().Sets[push.ScopedRouteType].Changed(before))
	}
	require.Same(t, listeners, s.Snapshot().Sets[push.ListenerType])
}

// What a listener is for is in its hostname: one host is never many.
func TestAListenerOfOneHostHasItsRoutesWhole(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.DivideByHostsFrom(push.ScopedFrom)
	b.apply(t, strings.Replace(apiGateway, "protocol: HTTP}", "protocol: HTTP, hostname: r1.example.com}", 1)+"---"+serviceOf(0, 1)+"---"+httpRoute(1, 0))
	require.Empty(t, foundByHost(b.connect(t, apiRouter(), true)))

	b = newBench()
	b.DivideByHostsFrom(0)
	b.apply(t, apiGateway)
	require.Empty(t, foundByHost(b.connect(t, apiRouter(), true)), "--routes-by-host 0 is for all listeners")
}

package push_test

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// newest is the node of the newest Envoy, which takes virtual hosts apart if it speaks delta.
func newest(n *corev3.Node) *corev3.Node { return version(n, "envoy", 1, 40) }

func version(n *corev3.Node, agent string, major, minor uint32) *corev3.Node {
	n = proto.CloneOf(n)
	n.UserAgentName = agent
	n.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: major, MinorNumber: minor}},
	}
	return n
}

func (b *bench) connect(t *testing.T, n *corev3.Node, incremental bool) *served.Subscriber {
	t.Helper()
	s := b.open(t, &envoy{n, incremental})
	t.Cleanup(s.Close)
	return s
}

// ruled is a service with a rule that has a number in it, and a port whose protocol is detected.
func ruled(name string, number int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 9000, name: detected}]
  addresses: [240.0.0.1]
  endpoints: [{address: 10.1.0.1}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.mesh]
  http: [{headers: {request: {set: {number: "%[2]d"}}}, route: [{destination: {host: %[1]s.mesh}}]}]
`, name, number)
}

func TestOneRouteAmongManyIsOneVirtualHost(t *testing.T) {
	t.Parallel()
	b := newBench()
	var all strings.Builder
	for i := range 1000 {
		all.WriteString("---" + strings.Replace(ruled(fmt.Sprintf("s%d", i), 0), ", {number: 9000, name: detected}", "", 1))
	}
	b.apply(t, all.String())
	s := b.connect(t, node("10.0.0.1", "shop"), true)
	before := s.Snapshot()
	require.Greater(t, before.Sets[push.VirtualHostType].Len(), 1000)

	b.apply(t, strings.Replace(ruled("s500", 1), ", {number: 9000, name: detected}", "", 1))
	after := s.Snapshot()
	require.Equal(t, []string{"80/s500.mesh:80"}, after.Sets[push.VirtualHostType].Changed(before.Sets[push.VirtualHostType]))
	require.Same(t, before.Sets[push.RouteType], after.Sets[push.RouteType])
}

func TestOnlyNewEnvoysOfDeltaTakeVirtualHostsApart(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, ruled("reviews", 0))
	n := node("10.0.0.1", "shop")
	clusters := b.connect(t, n, false).Snapshot().Sets[push.ClusterType]
	for name, proxy := range map[string]struct {
		node                 *corev3.Node
		incremental, divided bool
	}{
		"an Envoy":                        {version(n, "envoy", 1, 40), true, true},
		"a later one":                     {version(n, "envoy", 2, 0), true, true},
		"a state of the world":            {version(n, "envoy", 1, 40), false, false},
		"an Envoy that would refuse it":   {version(n, "envoy", 1, 36), true, false},
		"another client":                  {version(n, "gRPC Go", 1, 80), true, false},
		"a client that says nothing more": {n, true, false},
	} {
		s, err := b.Open(t.Context(), proxy.node, proxy.incremental)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		routes := &routev3.RouteConfiguration{}
		require.NoError(t, s.Snapshot().Sets[push.RouteType].Get("80").Body.UnmarshalTo(routes))
		require.Equal(t, proxy.divided, routes.GetVhds() != nil, name)
		require.Equal(t, proxy.divided, len(routes.GetVirtualHosts()) == 0, name)
		require.Equal(t, proxy.divided, s.Snapshot().Sets[push.VirtualHostType].Get("80/reviews.mesh:80") != nil, name)

		single := &routev3.RouteConfiguration{}
		require.NoError(t, s.Snapshot().Sets[push.RouteType].Get("reviews.mesh:9000").Body.UnmarshalTo(single))
		require.Len(t, single.GetVirtualHosts(), 1, name)
		for r := range s.Snapshot().Sets[push.ClusterType].All() { // whoever has it, it is in memory once
			require.Same(t, clusters.Get(r.Name), r, name)
		}
	}
}

func TestAHostThatEnvoyWouldRefuseTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, ruled("reviews", 0)+"---"+ruled("ratings", 0))
	s := b.connect(t, node("10.0.0.1", "shop"), true)
	before := s.Snapshot().Sets[push.VirtualHostType]
	b.apply(t, ruled("ratings", 1)+"---"+strings.Replace(ruled("reviews", 1), "set: {number: ", `set: {"num\nber": `, 1))
	after := s.Snapshot().Sets[push.VirtualHostType]
	require.Same(t, before.Get("80/reviews.mesh:80"), after.Get("80/reviews.mesh:80"))
	require.NotEqual(t, before.Get("80/ratings.mesh:80").Version, after.Get("80/ratings.mesh:80").Version)
}

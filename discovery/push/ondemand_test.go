package push_test

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// onDemand is a node that asks for what it uses.
func onDemand(n *corev3.Node) *corev3.Node {
	n = newest(n)
	n.Metadata.Fields["ON_DEMAND"] = structpb.NewStringValue("true")
	return n
}

// waits tells whether requests of a proxy wait for their routes.
func waits(s *served.Snapshot) bool {
	for r := range s.Sets[push.ListenerType].All() {
		if bytes.Contains(r.Body.GetValue(), []byte("envoy.filters.http.on_demand")) {
			return true
		}
	}
	return false
}

func TestProxiesOnDemandBesideOthers(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, ruled("reviews", 0))
	n := node("10.0.0.1", "shop")
	all, few := b.connect(t, newest(n), true).Snapshot(), b.connect(t, onDemand(n), true).Snapshot()
	require.False(t, waits(all))
	require.True(t, waits(few))
	require.NotNil(t, all.Sets[push.VirtualHostType].Get("80/reviews.mesh:80"))
	require.Nil(t, few.Sets[push.VirtualHostType].Get("80/reviews.mesh:80"))
	require.NotNil(t, few.Sets[push.VirtualHostType].Get("80/allow_any"))
	require.Nil(t, few.Sets[push.ClusterType].Get("outbound|80||reviews.mesh"))
	require.NotNil(t, few.Sets[push.ClusterType].Get("PassthroughCluster"))
	require.NotNil(t, few.Sets[push.ClusterType].Get("outbound|9000||reviews.mesh"), "its route configuration has its virtual host in itself")
	require.Same(t, all.Sets[push.EndpointType], few.Sets[push.EndpointType])
}

func TestAProxyThatCannotAskIsGivenEverything(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, ruled("reviews", 0))
	n := onDemand(node("10.0.0.1", "shop"))
	for name, proxy := range map[string]struct {
		node        *corev3.Node
		incremental bool
	}{
		"a state of the world": {n, false},
		"an older Envoy":       {version(n, "envoy", 1, 39), true},
	} {
		s, err := b.Open(t.Context(), proxy.node, proxy.incremental)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		require.False(t, waits(s.Snapshot()), name)
		require.NotNil(t, s.Snapshot().Sets[push.ClusterType].Get("outbound|80||reviews.mesh"), name)
	}
}

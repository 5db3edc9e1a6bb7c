package wire

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// anEnvoy returns a node with extensions between its other fields, because encoders may write
// fields in any order.
func anEnvoy() *corev3.Node {
	return &corev3.Node{
		Id: "sidecar~10.0.0.1~vm.shop~shop.svc", Cluster: "web", UserAgentName: "envoy",
		Extensions:     []*corev3.Extension{{Name: "envoy.filters.http.router"}, {Name: "envoy.filters.network.tcp_proxy"}},
		ClientFeatures: []string{"envoy.lb.does_not_support_overprovisioning"},
	}
}

// In both forms everything is read but the node's extensions.
func TestRequestsAreReadWithoutExtensions(t *testing.T) {
	t.Parallel()
	lean := anEnvoy()
	lean.Extensions = nil

	incremental := &discoveryv3.DeltaDiscoveryRequest{
		Node: anEnvoy(), TypeUrl: "a type", ResourceNamesSubscribe: []string{"one", "two"}, InitialResourceVersions: map[string]string{"one": "1"},
	}
	want, got := proto.CloneOf(incremental), leanDelta{&discoveryv3.DeltaDiscoveryRequest{}, (&limits.Reader{}).Admit()}
	want.Node = lean
	require.NoError(t, got.Decode(written(t, incremental)))
	require.Empty(t, cmp.Diff(want, got.DeltaDiscoveryRequest, protocmp.Transform()))

	whole := &discoveryv3.DiscoveryRequest{VersionInfo: "7", Node: anEnvoy(), ResourceNames: []string{"one"}, TypeUrl: "a type", ResponseNonce: "3"}
	wantWhole, gotWhole := proto.CloneOf(whole), leanSotW{&discoveryv3.DiscoveryRequest{}, (&limits.Reader{}).Admit()}
	wantWhole.Node = lean
	require.NoError(t, gotWhole.Decode(written(t, whole)))
	require.Empty(t, cmp.Diff(wantWhole, gotWhole.DiscoveryRequest, protocmp.Transform()))
}

func written(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return b
}

// Whatever bytes are a request are read as such, without the extensions.
func FuzzLeanRequests(f *testing.F) {
	seed, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{Node: anEnvoy(), TypeUrl: "a type", ResourceNamesSubscribe: []string{"one"}})
	require.NoError(f, err)
	f.Add(seed)
	f.Add(seed[:len(seed)-3])
	f.Add(append(seed, seed...)) // a node in two parts
	f.Fuzz(func(t *testing.T, data []byte) {
		want, got := &discoveryv3.DeltaDiscoveryRequest{}, leanDelta{&discoveryv3.DeltaDiscoveryRequest{}, (&limits.Reader{}).Admit()}
		if proto.Unmarshal(data, want) != nil {
			return // only an extension may be wrong, which the server skips
		}
		if want.GetNode() != nil {
			want.Node.Extensions = nil
		}
		require.NoError(t, got.Decode(data))
		require.Empty(t, cmp.Diff(want, got.DeltaDiscoveryRequest, protocmp.Transform()))
	})
}

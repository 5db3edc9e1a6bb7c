package wire_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	out, err := proto.Marshal(m)
	require.NoError(t, err)
	return out
}

func route(t testing.TB, name string) *anypb.Any {
	t.Helper()
	body, err := anypb.New(&routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}}}})
	require.NoError(t, err)
	return body
}

func TestParseRequest(t *testing.T) {
	t.Parallel()
	r, err := wire.ParseRequest(wire.Delta, encode(t, &discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "a"}, TypeUrl: "t", ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"c"},
		InitialResourceVersions: map[string]string{"d": "1"}, ResponseNonce: "n", ErrorDetail: &statuspb.Status{Code: 3, Message: "no"},
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, r.Subscribe)
	require.Equal(t, []string{"c"}, r.Unsubscribe)
	require.Equal(t, 1, r.Held)
	r.Versions(func(name, version string) { require.Equal(t, "d=1", name+"="+version) })
	r, err = wire.ParseRequest(wire.Delta, r.WithVersions(func(name, version string) string { return name + version }))
	require.NoError(t, err)
	r.Versions(func(name, version string) { require.Equal(t, "d=d1", name+"="+version) })
	require.Equal(t, []string{"a", "b"}, r.Subscribe)
	require.Equal(t, []any{"t", "n", true, "no", true}, []any{r.TypeURL, r.Nonce, r.Refused, r.Reason, r.HasNode})

	r, err = wire.ParseRequest(wire.SotW, encode(t, &discoveryv3.DiscoveryRequest{
		Node: &corev3.Node{Id: "a"}, TypeUrl: "t", ResourceNames: []string{"a", "b"}, VersionInfo: "7", ResponseNonce: "n",
	}))
	require.NoError(t, err)
	require.Equal(t, []any{"t", "n", "7", false, true}, []any{r.TypeURL, r.Nonce, r.Version, r.Refused, r.HasNode})
	require.Equal(t, []string{"a", "b"}, r.Names)
}

// Encoding a parsed response gives an equal response.
func TestParseAndEncodeResponse(t *testing.T) {
	t.Parallel()
	delta := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "7", TypeUrl: "t", Nonce: "n", RemovedResources: []string{"x"},
		Resources: []*discoveryv3.Resource{{Name: "a", Version: "1", Resource: route(t, "a"), Aliases: []string{"a/b"}}, {Name: "b", Version: "2", Resource: route(t, "b")}},
	}
	r, err := wire.ParseResponse(wire.Delta, encode(t, delta))
	require.NoError(t, err)
	made := &discoveryv3.DeltaDiscoveryResponse{}
	require.NoError(t, proto.Unmarshal(r.Encode(wire.Delta), made))
	require.Empty(t, cmp.Diff(delta, made, protocmp.Transform()))

	sotw := &discoveryv3.DiscoveryResponse{VersionInfo: "7", TypeUrl: "t", Nonce: "n", Resources: []*anypb.Any{route(t, "a"), route(t, "b")}}
	r, err = wire.ParseResponse(wire.SotW, encode(t, sotw))
	require.NoError(t, err)
	require.Equal(t, "b", r.Resources[1].Name)
	again := &discoveryv3.DiscoveryResponse{}
	require.NoError(t, proto.Unmarshal(r.Encode(wire.SotW), again))
	require.Empty(t, cmp.Diff(sotw, again, protocmp.Transform()))

	asked := &discoveryv3.DeltaDiscoveryRequest{}
	require.NoError(t, proto.Unmarshal((&wire.Request{TypeURL: "t", Nonce: "n", Refused: true, Reason: "no", Subscribe: []string{"a"}}).
		Encode(wire.Delta, map[string]string{"a": "1"}), asked))
	require.Empty(t, cmp.Diff(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: "t", ResponseNonce: "n", ErrorDetail: &statuspb.Status{Code: 3, Message: "no"}, ResourceNamesSubscribe: []string{"a"},
		InitialResourceVersions: map[string]string{"a": "1"},
	}, asked, protocmp.Transform()))
}

// FuzzMessages holds that whatever protobuf can decode is parsed to the same values, and anything
// else is at most an error.
func FuzzMessages(f *testing.F) {
	f.Add(encode(f, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: map[string]string{"d": "1"}}))
	f.Add(encode(f, &discoveryv3.DiscoveryRequest{TypeUrl: "t", ResourceNames: []string{"a"}, ErrorDetail: &statuspb.Status{Message: "no"}}))
	f.Add(encode(f, &discoveryv3.DiscoveryResponse{TypeUrl: "t", Resources: []*anypb.Any{route(f, "a")}}))
	f.Add(encode(f, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: "t", Resources: []*discoveryv3.Resource{{Name: "a", Resource: route(f, "a")}}}))
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, form := range []wire.Form{wire.Delta, wire.SotW} {
			if r, err := wire.ParseRequest(form, message); err == nil {
				same, err := wire.ParseRequest(form, r.WithVersions(func(_, version string) string { return version }))
				require.NoError(t, err)
				require.Equal(t, r.Held, same.Held)
			}
			_, _ = wire.ParseResponse(form, message)
		}
		request := &discoveryv3.DeltaDiscoveryRequest{}
		if proto.Unmarshal(message, request) != nil {
			return
		}
		r, err := wire.ParseRequest(wire.Delta, message)
		require.NoError(t, err)
		require.Equal(t, request.GetTypeUrl(), r.TypeURL)
		require.Equal(t, request.GetResponseNonce(), r.Nonce)
		require.Len(t, r.Subscribe, len(request.GetResourceNamesSubscribe()))
		require.Equal(t, request.GetErrorDetail() != nil, r.Refused)
	})
}

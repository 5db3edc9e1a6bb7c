package push_test

import (
	"log/slog"
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

const api = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec:
  hosts: [api.example.com]
  addresses: [10.0.5.1]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
`

// An agent asks for the table as Istio's do: by its type, without names. It is sent each change of
// names, and nothing else.
func TestAnAgentIsSentTheNamesThatItResolves(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, api)
	stream := b.serve(t)
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{Node: node("10.0.0.1", "shop"), TypeUrl: "type.googleapis.com/istio.networking.nds.v1.NameTable"}))
	names := func() map[string][]string {
		answer, err := stream.Recv()
		require.NoError(t, err)
		require.Len(t, answer.GetResources(), 1)
		var table ndsv1.NameTable
		require.NoError(t, answer.GetResources()[0].UnmarshalTo(&table))
		require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: answer.GetTypeUrl(), VersionInfo: answer.GetVersionInfo(), ResponseNonce: answer.GetNonce()}))
		out := map[string][]string{}
		for host, info := range table.GetTable() {
			out[host] = info.GetIps()
		}
		return out
	}
	require.Equal(t, map[string][]string{"api.example.com": {"10.0.5.1"}}, names())
	b.apply(t, route("r", "x")) // a host that is not in the table
	b.apply(t, api+"  location: MESH_INTERNAL\n")
	b.apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: more, namespace: shop}
spec: {hosts: [more.example.com], addresses: [10.0.5.2], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
`)
	require.Equal(t, map[string][]string{"api.example.com": {"10.0.5.1"}, "more.example.com": {"10.0.5.2"}}, names(), "the first push with a change of names")
}

// serve serves the engine's proxies over a real connection, and opens a stream.
func (b *bench) serve(t *testing.T) discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	push.NewServer(b.Engine, ads.Limits{}, nil, slog.New(slog.DiscardHandler)).Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, connection.Close())
		server.Stop()
		require.NoError(t, <-served)
	})
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	return stream
}

package publish_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

type adsStream = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// idle asks a gRPC server with the MCP service for a type, with the keepalive of istiod, accepts
// the answer, and is silent for a time, which passes at once.
func idle(t *testing.T, g *grpc.Server, silence time.Duration) (adsStream, *publish.Publisher) {
	t.Helper()
	p := publish.New(prometheus.NewRegistry())
	open := func(context.Context) (*served.Subscriber, error) { return p.Subscribe(), nil }
	publish.NewServer(open, publish.Within{}, ads.Observers{}, nil).Register(g)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:in-memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		g.Stop()
		require.NoError(t, <-served)
	})
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	p.Replace(content("default/a@1"), publish.Position{Revision: 1})
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: virtualService.TypeURL()}))
	first, err := stream.Recv()
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: virtualService.TypeURL(), ResponseNonce: first.GetNonce()}))
	time.Sleep(silence) // by the clock of the synctest bubble that calls this: no time passes outside of it
	return stream, p
}

// Istiod pings after 30 seconds of silence. A server that takes that for abuse hangs up after a
// minute and a half.
func TestIstiodMayBeIdleForHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream, p := idle(t, rpc.NewServer(), 12*time.Hour)
		p.Replace(content("default/a@2"), publish.Position{Revision: 2})
		second, err := stream.Recv()
		require.NoError(t, err, "the stream of twelve hours ago")
		require.Equal(t, "2", second.GetVersionInfo())
	})
}

// gRPC's default, with which the test above would fail.
func TestWithoutOurRulesAnIdleIstiodIsHungUpOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream, _ := idle(t, grpc.NewServer(), 5*time.Minute)
		_, err := stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "too_many_pings")
	})
}

package serve_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// The istiod of 1.11 and before receives 4 MiB. It hangs up on more than that, comes back for it,
// and hangs up again: the operator has to learn why. Those that are newer receive it.
func TestAResponseTooLargeForAnOldIstiodIsReported(t *testing.T) {
	t.Parallel()
	database, log := pgtest.New(t), &journal.Journal{}
	execute(t, database, fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, annotations, spec)
		SELECT 'ServiceEntry', 'n' || n, jsonb_build_object('note', repeat('x', 100000)), '{"hosts": ["a.example"],
			"ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}' FROM generate_series(1, %d) n`, 45))
	server := launch(t, serve.Options{Database: database, Log: slog.New(slog.NewTextHandler(log, nil))})

	receive := func(most int) error {
		ctx, client := adsClient(t, server.MCP.String())
		stream, err := client.StreamAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(most))
		require.NoError(t, err)
		require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: serviceEntries}))
		r, err := stream.Recv()
		if err == nil {
			require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: serviceEntries, ResponseNonce: r.GetNonce()}))
			require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "probe.example/v1/Probe"})) // the answer was taken in
			_, err = stream.Recv()
		}
		return err
	}
	const counter = `pgmesh_mcp_server_unreceived_total{type="networking.istio.io/v1/ServiceEntry"} `
	require.NoError(t, receive(1<<31-1))
	_, metrics := server.get("/metrics")
	require.NotContains(t, metrics, counter)
	require.Equal(t, codes.ResourceExhausted, status.Code(receive(4<<20)))
	require.Eventually(t, func() bool {
		_, metrics := server.get("/metrics")
		return strings.Contains(metrics, counter+"1\n")
	}, limit, 10*time.Millisecond, "the server hears of it when the client has gone")
	require.Contains(t, log.String(), "larger than gRPC receives by default")
	require.Regexp(t, `type=networking.istio.io/v1/ServiceEntry revision=1 bytes=45\d{5} `, log.String())

	has := connect(t, server.MCP.String(), nil)
	require.Len(t, has.until(1), 45, "the incremental form comes in parts that fit")
}

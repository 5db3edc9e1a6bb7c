package attack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// reader connects to mcp-server with a token that may only read.
func (m *mesh) reader(name string) (context.Context, *grpc.ClientConn) {
	m.t.Helper()
	token, err := os.ReadFile(m.token(name, "read"))
	require.NoError(m.t, err)
	return metadata.AppendToOutgoingContext(m.t.Context(), "authorization", "Bearer "+strings.TrimSpace(string(token))), asStranger(m.t, m.MCP)
}

const virtualServices = "networking.istio.io/v1/VirtualService"

// Readers claim to have a million resources each, on many streams at once.
func TestReadersTakeNoMemory(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	ctx, _ := m.reader("greedy")
	held := make(map[string]string, 600_000)
	for i := range 600_000 {
		held[fmt.Sprintf("a-namespace/a-resource-%07d", i)] = "0123456789abcdef"
	}
	// Each message of 30 MB is in memory before it is weighed, and Go's collector lets that double
	// on a busy machine.
	check := keepsBelow(t, memory{m.MCPServer, 1400})
	var all sync.WaitGroup
	var refused, answered atomic.Int64
	for range 12 {
		conn := asStranger(t, m.MCP)
		all.Go(func() {
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, grpc.MaxCallRecvMsgSize(64<<20))
			if err != nil {
				return
			}
			_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: virtualServices, InitialResourceVersions: held})
			switch _, err := stream.Recv(); {
			case err == nil:
				answered.Add(1)
			case status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "--max-request-memory-mib"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	require.Contains(t, m.client("get", "all", "-A", "-o", "name"), "", "an honest reader is served meanwhile")
	all.Wait()
	t.Logf("%d were answered, and %d told to come back", answered.Load(), refused.Load())
	require.Positive(t, answered.Load())
	require.Positive(t, refused.Load())
	check()
	require.Contains(t, m.page(m.MCPServer.HTTP(), "/metrics"), `pgmesh_mcp_server_limit_refusals_total{limit="memory"} `)
}

// Readers of both generations refuse what they are sent, each time with megabytes of reasons.
func TestReadersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.sql(`INSERT INTO mesh.virtual_services (name, hosts, http) VALUES ('x', '{x}', '[{"route": [{"destination": {"host": "x"}}]}]')`)
	before := len(m.MCPServer.Log())
	ctx, conn := m.reader("loud")
	reason := &rpcstatus.Status{Code: 3, Message: strings.Repeat("no, and again no. ", 50_000)}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
			for i := 0; err == nil && i < 10; i++ {
				if err = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: virtualServices + strings.Repeat(" ", i)}); err != nil {
					break
				}
				var r *discoveryv3.DiscoveryResponse
				if r, err = stream.Recv(); err == nil {
					err = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: reason})
				}
			}
			if err == nil {
				_ = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "last"})
				_, err = stream.Recv()
			}
			if err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			stream, err := legacyv1.NewResourceSourceClient(conn).EstablishResourceStream(ctx)
			var r *legacyv1.Resources
			for i := 0; err == nil && i < 5; i++ {
				name := fmt.Sprint("istio/made/up", i)
				if err = stream.Send(&legacyv1.RequestResources{SinkNode: &legacyv1.SinkNode{Id: reason.GetMessage()}, Collection: name}); err == nil {
					r, err = stream.Recv()
				}
				if err == nil {
					err = stream.Send(&legacyv1.RequestResources{Collection: name, ResponseNonce: r.GetNonce(), ErrorDetail: reason})
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	written := len(m.MCPServer.Log()) - before
	t.Logf("300 refusals of a megabyte each made the log %d bytes longer", written)
	require.Contains(t, m.MCPServer.Log(), "bytes more)")
	require.Less(t, written, 1<<20)
	require.Less(t, len(m.client("status", "-o", "json")), 1<<20)
}

// A reader asks for the state of the world again and again, and never answers with a nonce.
func TestAReaderIsSentTheSameOnlySoOften(t *testing.T) {
	t.Parallel()
	m := newMesh(t, func(s *stack.Stack) { s.ServerFlags("--max-repeat-rate", "4", "--max-repeat-burst", "40") })
	ctx, conn := m.reader("eager")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var got, turnedAway atomic.Int64
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
			for i := 0; err == nil && i < 500; i++ {
				if err = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: virtualServices}); err == nil {
					_, err = stream.Recv()
				}
				if err == nil {
					got.Add(1)
				}
			}
			if status.Code(err) == codes.ResourceExhausted && turnedAway.Add(1) == 20 {
				stop() // the remaining streams wait for their turn
			}
		})
	}
	all.Wait()
	t.Logf("sent %d states of 20,000 that were asked for", got.Load())
	require.Less(t, got.Load(), int64(200), "40 are the first of their streams")
	require.GreaterOrEqual(t, turnedAway.Load(), int64(20))
}

// Package ads serves the xDS protocol, state of the world and delta, over one aggregated stream per
// client.
//
// It implements the protocol and knows nothing of meshes: subscriptions, nonces, ACK and NACK, flow
// control, and the order in which the parts of a change travel. mcp-server serves configuration
// with it, discovery serves Envoy.
//
// A stream moves its client from one [served.Snapshot] to the next. At most one response per type
// is unanswered. While a change is under way, newer snapshots wait; then the stream goes to the
// newest one.
//
// A [Stream] reads requests (requests.go), walks through the stages of a change (stages.go) and
// sends what may be sent now (flush.go). For each type it has a subscription, which knows what the
// client asks for (asking.go, names.go) and has, and works out the next step to the target
// (advance.go). What a client makes of it is in answer.go; what it refuses goes through a
// quarantine (quarantined.go).
package ads

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/wire"
	"github.com/pgmesh/pgmesh/internal/limits"
)

// Server implements the aggregated discovery service.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	cfg       Config
	typePlans typePlans
	roster    roster
	limits    *bounds
	inquiry   *inquiry      // nil if there are no questions
	done      chan struct{} // closed by Shutdown
}

// NewServer returns a server; Register adds it to gRPC.
func NewServer(cfg Config) *Server {
	cfg.setDefaults()
	return &Server{cfg: cfg, typePlans: newTypePlans(&cfg.Plan), limits: newBounds(cfg.Limits, cfg.Observer), done: make(chan struct{})}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// Shutdown ends every stream, so that a graceful stop of the gRPC server does not wait for clients
// that never leave. It must be called only once.
func (s *Server) Shutdown() { close(s.done) }

// StreamAggregatedResources serves a state-of-the-world client.
func (s *Server) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(g.Context(), wire.NewSotW(g, s.cfg.Identifier, s.reader(g.Context())))
}

// DeltaAggregatedResources serves a delta client.
func (s *Server) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(g.Context(), wire.NewDelta(g, s.cfg.Identifier, s.reader(g.Context())))
}

func (s *Server) reader(ctx context.Context) *limits.Reader {
	return &limits.Reader{Context: ctx, Memory: s.cfg.Budgets.Memory, Holder: s.cfg.Reader(ctx)}
}

// serve admits a stream, opens the source of its snapshots with the first request, and runs it
// until it ends.
func (s *Server) serve(ctx context.Context, form wire.Form) error {
	if err := s.limits.arrive(ctx, s.done); err != nil {
		return err
	}
	// The receiving goroutine ends with this handler, because Recv fails once the handler returns.
	requests, failed := receive(ctx, form, s.limits.pace(func() { s.tooFast(ctx) }))
	first, err := firstRequest(ctx, requests, failed, s.done)
	if first == nil {
		return err
	}
	if first.Release != nil {
		defer first.Release()
	}
	if size := proto.Size(first.Node); size > maxNodeSize {
		return status.Errorf(codes.ResourceExhausted, "the node has %d bytes, and may have %d: take metadata away", size, maxNodeSize)
	}
	if s.inquiry.is(first.TypeURL) {
		return s.converse(ctx, form, first, requests, failed)
	}
	view, err := s.cfg.Open(ctx, first.Node, form.Incremental())
	if err != nil {
		return err
	}
	defer view.Close()
	st := newStream(ctx, s, form, view, first.Node)
	defer st.releaseMemory(true)
	s.cfg.Observer.Opened(st)
	defer s.cfg.Observer.Closed(st)
	s.roster.enter(st)
	defer s.roster.leave(st)
	defer st.left(ctx)
	defer st.refusesNoMore()
	return st.run(ctx, first, requests, failed, s.done)
}

// maxNodeSize is far above the size of any real node. The server keeps the node for the life of the
// stream.
const maxNodeSize = 64 << 10

func (s *Server) tooFast(ctx context.Context) {
	s.cfg.Log.Warn("a client makes more requests than it may, and is slowed down; if it has to, raise --max-request-rate",
		"address", peerOf(ctx), "requests_a_second", s.cfg.Limits.Requests)
}

func firstRequest(ctx context.Context, requests <-chan *wire.Request, failed <-chan error, done <-chan struct{}) (*wire.Request, error) {
	select {
	case r := <-requests:
		return r, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, nil
	case <-done:
		return nil, errShutdown
	}
}

var errShutdown = status.Error(codes.Unavailable, "the server is shutting down")

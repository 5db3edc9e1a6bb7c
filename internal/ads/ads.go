// Package ads serves the xDS transport protocol, state-of-the-world and delta, over one aggregated stream a client.
//
// It knows the protocol and nothing of meshes: subscriptions, nonces, ACK and NACK, flow control, and the order in which
// the parts of one change travel. mcp-server serves configuration with it, discovery serves Envoy.
//
// A stream is brought from one [Snapshot] to the next. At most one response a type is unanswered at any time, and while a
// change is on its way newer snapshots wait: the stream goes to the newest one when the change has arrived.
package ads

import (
	"context"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config says what a Server serves and how.
type Config struct {
	// Open is called with the node of a stream's first request and returns where its snapshots come from. Its error ends
	// the stream and should carry a gRPC status.
	Open func(ctx context.Context, node *corev3.Node) (*Subscriber, error)

	// Canonical maps a requested type URL to the one that snapshots use. Responses always carry the requested one.
	// Nil means that there are no aliases.
	Canonical func(typeURL string) string

	// Named tells the types of which a state-of-the-world client has to name what it wants: for these no names means
	// nothing, for every other type it means everything.
	Named func(typeURL string) bool

	// Absent hears of each name that a client asks for and that there is nothing of. It must not block. It may be nil.
	Absent func(s *Stream, typeURL, name string)

	// Dropped hears of each name that a client has asked for and no longer wants. It must not block. It may be nil.
	Dropped func(s *Stream, typeURL, name string)

	// Plan is the order in which the parts of a change travel. A stream follows it only while it is subscribed to the
	// type Plan.When, if that is set. Without a plan each type travels as soon as it can.
	Plan Plan

	// Identifier is sent as the control plane's identifier in each response.
	Identifier string

	// MostBytes bounds the messages in which an incremental client is sent a response: a larger one comes in parts, one after the
	// other, of which the last is the one to answer. 0 is no bound, for clients that take the first message for the whole.
	MostBytes int

	// Patience bounds how long a stage of a plan may hold back the ones after it.
	Patience time.Duration

	Observer Observer
	Log      *slog.Logger
}

// Observer hears what happens on the streams. Its methods are called from many goroutines and must not block.
type Observer interface {
	Opened(*Stream)
	Closed(*Stream)
	Sent(s *Stream, typeURL, revision string, resources, removed int)
	Acked(s *Stream, typeURL, revision string)
	Nacked(s *Stream, typeURL, revision, reason string)
	// Unreceived tells of a client that has left without an answer to a response that is larger than clients receive by default.
	Unreceived(s *Stream, typeURL string, bytes int)
}

// Server implements the aggregated discovery service.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	cfg   Config
	lanes lanes
	done  chan struct{}
}

const defaultPatience = 3 * time.Second

// NewServer returns a server that is ready to be registered.
func NewServer(cfg Config) *Server {
	if cfg.Canonical == nil {
		cfg.Canonical = func(typeURL string) string { return typeURL }
	}
	if cfg.Named == nil {
		cfg.Named = func(string) bool { return false }
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Observer == nil {
		cfg.Observer = silent{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, lanes: newLanes(&cfg.Plan), done: make(chan struct{})}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// Shutdown ends every stream, so that a graceful stop of the gRPC server need not wait for clients that never leave.
// It must be called once.
func (s *Server) Shutdown() { close(s.done) }

// StreamAggregatedResources serves a state-of-the-world client.
func (s *Server) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(g.Context(), &sotw{stream: g, identifier: s.cfg.Identifier})
}

// DeltaAggregatedResources serves an incremental client.
func (s *Server) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(g.Context(), &delta{stream: g, identifier: s.cfg.Identifier})
}

func (s *Server) serve(ctx context.Context, w wire) error {
	// The receiver must not outlive the stream's handler, which gRPC guarantees: Recv fails once the handler returns.
	requests, failed := receive(ctx, w)
	first, err := firstRequest(ctx, requests, failed, s.done)
	if first == nil {
		return err
	}
	view, err := s.cfg.Open(ctx, first.node)
	if err != nil {
		return err
	}
	defer view.Close()
	st := newStream(s, w, view, first.node)
	s.cfg.Observer.Opened(st)
	defer s.cfg.Observer.Closed(st)
	defer st.left(ctx)
	return st.run(ctx, first, requests, failed, s.done)
}

func firstRequest(ctx context.Context, requests <-chan *request, failed <-chan error, done <-chan struct{}) (*request, error) {
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

type silent struct{}

func (silent) Opened(*Stream)                         {}
func (silent) Closed(*Stream)                         {}
func (silent) Sent(*Stream, string, string, int, int) {}
func (silent) Acked(*Stream, string, string)          {}
func (silent) Nacked(*Stream, string, string, string) {}
func (silent) Unreceived(*Stream, string, int)        {}

// Package ads serves the xDS protocol, state of the world and delta, over one aggregated stream per client.
//
// It implements the protocol and knows nothing of meshes: subscriptions, nonces, ACK and NACK, flow control,
// and the order in which the parts of a change travel. mcp-server serves configuration with it, discovery
// serves Envoy.
//
// A stream moves its client from one [Snapshot] to the next. At most one response per type is unanswered.
// While a change is under way, newer snapshots wait; then the stream goes to the newest one.
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
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
	"github.com/pgmesh/pgmesh/internal/limits"
)

// Config says what a Server serves and how.
type Config struct {
	// Open is called with the node of a stream's first request and whether the client speaks delta. It
	// returns the source of the stream's snapshots. Its error ends the stream and should carry a gRPC status.
	Open func(ctx context.Context, node *corev3.Node, incremental bool) (*served.Subscriber, error)

	// Reader returns the reader that a stream's requests are counted against. Nil means the address it comes
	// from.
	Reader func(context.Context) string

	// Canonical maps a requested type URL to the one that snapshots use. Responses always carry the requested
	// one. Nil means that there are no aliases.
	Canonical func(typeURL string) string

	// Named reports whether a state-of-the-world client must name the resources it wants of a type. For these
	// types no names means nothing; for all others it means everything.
	Named func(typeURL string) bool

	// Belongs maps a canonical type to the type that owns its resources. An owned resource's name is its
	// owner's name, a slash, and a name without slashes. A delta client is sent what belongs to a resource
	// after it has accepted that resource, and again when it asks for that resource again.
	Belongs map[string]string

	// Outlive reports whether a client keeps owned resources of a type when everything with that owner is
	// gone. The owner's name is what comes before the last slash. The client may still use them where nobody
	// sees it, and unsubscribes when it no longer does. If something with that owner returns, what the client
	// has left is updated. It is for delta clients. Nil means no type.
	Outlive func(typeURL string) bool

	// Asked is called with the names that a delta client asks for, before it is sent any of them. It is also
	// called with the first request for a type, even one without names, with the versions that the client has
	// from an earlier stream. It may be nil.
	Asked func(s *Stream, typeURL string, names []string, held map[string]string)

	// Absent is called for each name that a client asks for and that does not exist. It must not block. It
	// may be nil.
	Absent func(s *Stream, typeURL, name string)

	// Dropped is called for each name that a client has asked for and no longer wants. It must not block. It
	// may be nil.
	Dropped func(s *Stream, typeURL, name string)

	// Quarantine finds out which resources of a refused response the client refuses, and delivers all others.
	// It is for clients that refuse a response wholly or in unknown parts.
	Quarantine bool

	// Plan is the order in which the parts of a change travel. If Plan.When is set, a stream follows the plan
	// only while it is subscribed to that type. Without a plan, each type travels as soon as it can.
	Plan Plan

	// Identifier is sent as the control plane's identifier in each response.
	Identifier string

	// MostBytes bounds the messages to a delta client: a larger response is sent in several messages, and the
	// client answers the last. 0 means no bound, for clients that take the first message for the whole
	// response.
	MostBytes int

	// Patience bounds how long a stage of a plan may hold back the following stages.
	Patience time.Duration

	Limits Limits
	// Budgets are the budgets of the limits, if several servers share them. Nil makes new ones for this
	// server.
	Budgets *Budgets

	Observer Observer
	Log      *slog.Logger
}

// Observer is notified of events on the streams. Its methods are called from many goroutines and must not
// block.
type Observer interface {
	Opened(*Stream)
	Closed(*Stream)
	// Sent is called before a message is sent: a whole response, or a part of a large one.
	Sent(*Stream, Message)
	Acked(*Stream, Verdict)
	Nacked(*Stream, Verdict)
	// Refusing is called when the number of resources that the client refuses changes by `more`, which may be
	// negative. It needs Config.Quarantine.
	Refusing(s *Stream, typeURL string, more int)
	// Limited is called when a limit was reached: with how long a client had to wait for it, or with
	// turnedAway if it was refused.
	Limited(limit string, waited time.Duration, turnedAway bool)
	// Unreceived is called when a client leaves without answering a response larger than gRPC clients receive
	// by default.
	Unreceived(s *Stream, typeURL string, bytes int)
}

// Message describes a message to a client about one type.
type Message struct {
	TypeURL, Revision  string
	Resources, Removed int
	Bytes              int
	News               *served.News // the oldest change in it; nil if there is none or it is unknown
}

// Verdict describes a client's answer to a response.
type Verdict struct {
	TypeURL, Revision string
	Reason            string        // of a refusal
	After             time.Duration // since the response was sent
	News              *served.News  // as in the Message
}

// Server implements the aggregated discovery service.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	cfg       Config
	typePlans typePlans
	roster    roster
	limits    *bounds
	done      chan struct{}
}

const defaultPatience = 3 * time.Second

// NewServer returns a server; Register adds it to gRPC.
func NewServer(cfg Config) *Server {
	if cfg.Canonical == nil {
		cfg.Canonical = func(typeURL string) string { return typeURL }
	}
	if cfg.Reader == nil {
		cfg.Reader = limits.Origin
	}
	if cfg.Named == nil {
		cfg.Named = func(string) bool { return false }
	}
	if cfg.Outlive == nil {
		cfg.Outlive = func(string) bool { return false }
	}
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Observer == nil {
		cfg.Observer = silent{}
	}
	if cfg.Budgets == nil {
		cfg.Budgets = cfg.Limits.Budgets(cfg.Observer)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, typePlans: newTypePlans(&cfg.Plan), limits: newBounds(cfg.Limits, cfg.Observer), done: make(chan struct{})}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// Shutdown ends every stream, so that a graceful stop of the gRPC server does not wait for clients that never
// leave. It must be called only once.
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

// maxNodeSize is far above the size of any real node. The server keeps the node for the life of the stream.
const maxNodeSize = 64 << 10

func (s *Server) tooFast(ctx context.Context) {
	s.cfg.Log.Warn("a client makes more requests than it may, and is slowed down; if it has to, raise --max-request-rate",
		"client", peerOf(ctx), "requests_a_second", s.cfg.Limits.Requests)
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

type silent struct{}

func (silent) Opened(*Stream)                      {}
func (silent) Closed(*Stream)                      {}
func (silent) Sent(*Stream, Message)               {}
func (silent) Acked(*Stream, Verdict)              {}
func (silent) Nacked(*Stream, Verdict)             {}
func (silent) Refusing(*Stream, string, int)       {}
func (silent) Limited(string, time.Duration, bool) {}
func (silent) Unreceived(*Stream, string, int)     {}

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
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// Config says what a Server serves and how.
type Config struct {
	// Open is called with the node of a stream's first request, and whether the client speaks the delta form, and returns where its
	// snapshots come from. Its error ends the stream and should carry a gRPC status.
	Open func(ctx context.Context, node *corev3.Node, incremental bool) (*Subscriber, error)

	// Reader names whose a stream is, to whom its requests are counted. Nil is where it comes from.
	Reader func(context.Context) string

	// Canonical maps a requested type URL to the one that snapshots use. Responses always carry the requested one.
	// Nil means that there are no aliases.
	Canonical func(typeURL string) string

	// Named tells the types of which a state-of-the-world client has to name what it wants: for these no names means
	// nothing, for every other type it means everything.
	Named func(typeURL string) bool

	// Belongs tells of canonical types to which other type each of their resources belongs. It is named by the one that it belongs to, a
	// slash, and a name that has none. A client of the delta form is sent what belongs to a resource once it has accepted that one, and
	// again when it asks for that one again.
	Belongs map[string]string

	// Outlive tells the types of which a client keeps what belonged to something that is gone altogether, the name of which is what comes before
	// the last slash of theirs: it may go on with that where nobody sees it, and says when it no longer does by asking for nothing of the type.
	// When something of that name comes back, what is left of it is brought up to date. It is for incremental clients. Nil means none.
	Outlive func(typeURL string) bool

	// Asked hears which names an incremental client asks for, before it is sent anything of them, and with the first request for a type, also if it
	// names nothing, the versions that the client has of it from an earlier stream. It may be nil.
	Asked func(s *Stream, typeURL string, names []string, held map[string]string)

	// Absent hears of each name that a client asks for and that there is nothing of. It must not block. It may be nil.
	Absent func(s *Stream, typeURL, name string)

	// Dropped hears of each name that a client has asked for and no longer wants. It must not block. It may be nil.
	Dropped func(s *Stream, typeURL, name string)

	// Isolate finds out which resources of a refused response it is that a client refuses, and lets all others get to it. It is for
	// clients that take nothing, or nobody knows what, of a response that they refuse.
	Isolate bool

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

	Limits Limits
	// Budgets are those of the limits, unless others share them. Nil is those of this server alone.
	Budgets *Budgets

	Observer Observer
	Log      *slog.Logger
}

// Observer hears what happens on the streams. Its methods are called from many goroutines and must not block.
type Observer interface {
	Opened(*Stream)
	Closed(*Stream)
	// Sent tells of a message that is on its way: all of a response, or a part of a large one.
	Sent(*Stream, Message)
	Acked(*Stream, Verdict)
	Nacked(*Stream, Verdict)
	// Refusing tells by how many more, or fewer, resources the client refuses now, where it is found out which.
	Refusing(s *Stream, typeURL string, more int)
	// Limited tells that a limit was reached: how long somebody had to wait because of it, or that somebody was turned away.
	Limited(limit string, waited time.Duration, turnedAway bool)
	// Unreceived tells of a client that has left without an answer to a response that is larger than clients receive by default.
	Unreceived(s *Stream, typeURL string, bytes int)
}

// Message is a message to a client about one type.
type Message struct {
	TypeURL, Revision  string
	Resources, Removed int
	Bytes              int
	News               *News // the oldest that it tells the client; nil if it tells none, or nobody knows
}

// Verdict is what a client said to a response.
type Verdict struct {
	TypeURL, Revision string
	Reason            string        // of a refusal
	After             time.Duration // since the response was sent
	News              *News         // as in the Message
}

// Server implements the aggregated discovery service.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	cfg    Config
	lanes  lanes
	roster roster
	limits *bounds
	done   chan struct{}
}

const defaultPatience = 3 * time.Second

// NewServer returns a server that is ready to be registered.
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
	return &Server{cfg: cfg, lanes: newLanes(&cfg.Plan), limits: newBounds(cfg.Limits, cfg.Observer), done: make(chan struct{})}
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
	return s.serve(g.Context(), &sotw{stream: g, identifier: s.cfg.Identifier, reader: s.reader(g.Context())})
}

// DeltaAggregatedResources serves an incremental client.
func (s *Server) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(g.Context(), newDelta(g, s.cfg.Identifier, s.reader(g.Context())))
}

func (s *Server) reader(ctx context.Context) *limits.Reader {
	return &limits.Reader{Context: ctx, Memory: s.cfg.Budgets.Memory, Holder: s.cfg.Reader(ctx)}
}

func (s *Server) serve(ctx context.Context, w wire) error {
	if err := s.limits.arrive(ctx, s.done); err != nil {
		return err
	}
	// The receiver must not outlive the stream's handler, which gRPC guarantees: Recv fails once the handler returns.
	requests, failed := receive(ctx, w, s.limits.pace(func() { s.tooFast(ctx) }))
	first, err := firstRequest(ctx, requests, failed, s.done)
	if first == nil {
		return err
	}
	if first.release != nil {
		defer first.release()
	}
	if size := proto.Size(first.node); size > mostOfNode {
		return status.Errorf(codes.ResourceExhausted, "the node has %d bytes, and may have %d: take metadata away", size, mostOfNode)
	}
	view, err := s.cfg.Open(ctx, first.node, w.incremental())
	if err != nil {
		return err
	}
	defer view.Close()
	st := newStream(ctx, s, w, view, first.node)
	defer st.letGo(true)
	s.cfg.Observer.Opened(st)
	defer s.cfg.Observer.Closed(st)
	s.roster.enter(st)
	defer s.roster.leave(st)
	defer st.left(ctx)
	defer st.refusesNoMore()
	return st.run(ctx, first, requests, failed, s.done)
}

// mostOfNode is far more than a client has to say of itself, which is kept for as long as its stream lasts.
const mostOfNode = 64 << 10

func (s *Server) tooFast(ctx context.Context) {
	s.cfg.Log.Warn("a client makes more requests than it may, and is slowed down; if it has to, raise --max-request-rate",
		"client", peerOf(ctx), "requests_a_second", s.cfg.Limits.Requests)
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

func (silent) Opened(*Stream)                      {}
func (silent) Closed(*Stream)                      {}
func (silent) Sent(*Stream, Message)               {}
func (silent) Acked(*Stream, Verdict)              {}
func (silent) Nacked(*Stream, Verdict)             {}
func (silent) Refusing(*Stream, string, int)       {}
func (silent) Limited(string, time.Duration, bool) {}
func (silent) Unreceived(*Stream, string, int)     {}

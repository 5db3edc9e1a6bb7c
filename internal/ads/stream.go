package ads

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/peer"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
)

// Stream is one client's stream. Only its own goroutine uses it, except for the exported methods.
type Stream struct {
	cfg       *Config
	typePlans *typePlans
	form      wire.Form
	view      *served.Subscriber
	node      *corev3.Node
	peer      string
	reader    string // its requests are counted against this reader
	since     time.Time

	ctx    context.Context //nolint:containedctx // it is the stream's own
	turn   turn
	status streamStatus // what other goroutines may read

	subs  []*subscription // in the order in which the client first asked
	nonce uint64

	target        *served.Snapshot // the snapshot that is being sent
	news          *served.News     // the change that led to target, while it is being sent; nil if unknown, or for the client's first snapshot
	progress      *progress        // the plan's progress; nil while no change is under way
	reported      *served.Snapshot // the target that was published last; reportedStage is its stage
	reportedStage int
	over          *progress // a finished progress, whose timer is reused
	wake          time.Time // the next wake-up; zero for none
	alarm         *time.Timer
	renewed       []served.Ref // references to send again, of types that the client has not asked for yet
	reconnected   bool         // the client has resources from an earlier stream, and the plan for them has not begun
	answeredOnce  bool         // the client has answered a response

	ran     *served.Snapshot // what the client runs, as published
	hurried bool             // a plan has gone on without the client since
}

func newStream(ctx context.Context, on *Server, form wire.Form, view *served.Subscriber, node *corev3.Node) *Stream {
	s := &Stream{cfg: &on.cfg, typePlans: &on.typePlans, form: form, view: view, node: node, since: time.Now(), peer: peerOf(ctx), reader: on.cfg.Reader(ctx), ctx: ctx}
	s.turn.limits = on.limits
	return s
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// Context is the stream's: it ends with the stream, and knows who the client is.
func (s *Stream) Context() context.Context { return s.ctx }

// Node returns the node of the client's first request.
func (s *Stream) Node() *corev3.Node { return s.node }

// Peer returns the client's address.
func (s *Stream) Peer() string { return s.peer }

// Since returns when the stream began.
func (s *Stream) Since() time.Time { return s.since }

// Subscriber returns the source of the stream's snapshots, as Open returned it.
func (s *Stream) Subscriber() *served.Subscriber { return s.view }

// Incremental reports whether the client speaks delta.
func (s *Stream) Incremental() bool { return s.form.Incremental() }

// run is the stream's goroutine. It handles one event at a time, and then sends what may be sent.
func (s *Stream) run(ctx context.Context, first *wire.Request, requests <-chan *wire.Request, failed <-chan error, done <-chan struct{}) error {
	if err := s.handle(first); err != nil {
		return err
	}
	for {
		if err := s.advance(); err != nil {
			return err
		}
		s.releaseMemory(false)
		select {
		case r := <-requests:
			if err := s.handle(r); err != nil {
				return err
			}
		case <-s.view.Changed():
		case <-s.progress.overdue():
			s.hurry()
		case <-s.waking():
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		case <-done:
			return errShutdown
		}
	}
}

// hurry continues without the answers of a client that takes too long. It is separate from run to
// keep run's stack small, of which there are a thousand.
func (s *Stream) hurry() {
	s.progress.impatient = true
	s.cfg.Log.Warn("a client does not answer, or ask for what it must have: sending it the rest of a change without waiting",
		s.cfg.Called, s.node.GetId(), "revision", s.target.Revision, "waiting_for", s.waitingFor())
}

// subscription returns the subscription to a type, or nil. It searches a slice: types are few, and
// a map per stream would cost more.
func (s *Stream) subscription(typeURL string) *subscription {
	for _, sub := range s.subs {
		if sub.typeURL == typeURL {
			return sub
		}
	}
	return nil
}

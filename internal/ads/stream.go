package ads

import (
	"cmp"
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

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

// hurry continues without the answers of a client that takes too long. It is separate from run to keep run's
// stack small, of which there are a thousand.
func (s *Stream) hurry() {
	s.progress.impatient = true
	s.cfg.Log.Warn("a client does not answer, or ask for what it must have: sending it the rest of a change without waiting",
		"node", s.node.GetId(), "revision", s.target.Revision, "waiting_for", s.waitingFor())
}

// maxTypes is far above the number of real types and aliases. Without it a client could make the server keep
// any number of names.
const maxTypes = 1000

// maxTypeLength is far above the length of any real type URL. The server keeps the URL for the life of the
// stream.
const maxTypeLength = 1 << 10

// handle processes a request. advance sends what it calls for.
func (s *Stream) handle(r *wire.Request) error {
	err := s.process(r)
	s.holdMemory(r)
	return err
}

func (s *Stream) process(r *wire.Request) error {
	if len(r.TypeURL) > maxTypeLength {
		return status.Errorf(codes.InvalidArgument, "a type has %d characters, and may have %d", len(r.TypeURL), maxTypeLength)
	}
	sub := s.subscription(r.TypeURL)
	if err := s.repeats(sub, r); err != nil {
		return err
	}
	if most := s.cfg.Limits.Names; most > 0 && s.namesAfter(sub, r) > most {
		s.cfg.Observer.Limited(NameLimit, 0, true)
		return status.Errorf(codes.ResourceExhausted, "a stream may ask for %d resources by name, and this one asks for more: "+
			"ask for fewer, or for all with *, or raise --%s", most, s.cfg.Limits.named().names)
	}
	switch {
	case sub != nil:
		s.handleUpdate(sub, r)
		s.updateStatus(sub)
	case len(s.subs) == maxTypes:
		return status.Errorf(codes.ResourceExhausted, "a stream may ask for %d types, and this one asks for more: open another", maxTypes)
	default:
		// The first request for a type on this stream is a first request, whatever its nonce. Stock istiod
		// sends a timestamp there.
		s.subscribe(r)
	}
	return nil
}

// namesAfter returns an upper bound of the stream's names after a request.
func (s *Stream) namesAfter(sub *subscription, r *wire.Request) int {
	names := len(r.Names) + len(r.Subscribe) + len(r.Held)
	for _, other := range s.subs {
		if other != sub || s.form.Incremental() {
			names += other.named()
		}
	}
	return names
}

// handleUpdate processes a further request for a type.
func (s *Stream) handleUpdate(sub *subscription, r *wire.Request) {
	switch {
	case r.Nonce == "":
	case r.Nonce == sub.pending:
		s.answered(sub, r)
	case r.Failure != nil && sub.isPart(r.Nonce):
		sub.suspect(r.Nonce)
		s.refused(sub, r)
	}
	if s.form.Incremental() {
		sub.drop(r.Unsubscribe)
		s.tellDropped(sub, r.Unsubscribe)
		sub.confirm(r.Unsubscribe)
		s.tellAsked(sub, r)
		sub.want(r.Subscribe, true)
		sub.owns.handleRequest(sub, r)
		return
	}
	if r.Nonce == "" {
		sub.restart()
	}
	// The client wants what it said last, even if it had not yet seen a response that is under way.
	s.tellDropped(sub, sub.replace(r.Names))
}

// subscription returns the subscription to a type, or nil. It searches a slice: types are few, and a map per
// stream would cost more.
func (s *Stream) subscription(typeURL string) *subscription {
	for _, sub := range s.subs {
		if sub.typeURL == typeURL {
			return sub
		}
	}
	return nil
}

func (s *Stream) subscribe(r *wire.Request) {
	sub := newSubscription(r.TypeURL, s.cfg.Canonical(r.TypeURL))
	sub.typePlan, sub.outlives = s.typePlans.of(sub.canonical), s.form.Incremental() && s.cfg.Outlive(sub.canonical)
	if s.target != nil {
		sub.aim(s.target)
	}
	names := r.Names
	if s.form.Incremental() {
		names = r.Subscribe
	}
	sub.wildcard = len(names) == 0 && (s.form.Incremental() || !s.cfg.Named(sub.canonical))
	if s.cfg.Asked != nil && s.form.Incremental() {
		s.cfg.Asked(s, sub.canonical, r.Subscribe, r.Held) // also without names: then the client says that it has nothing
	}
	sub.begin(s.unheld(sub.canonical, r.Held))
	sub.want(names, false)
	if !sub.wildcard {
		sub.keepNamed() // ignore what the client has and does not ask for
	}
	s.relate(sub)
	s.subs = append(s.subs, sub)
	s.status.enter(sub)
	s.noteReconnect(sub)
	if s.cfg.Plan.When != "" && s.cfg.Plan.When == sub.canonical && s.progress == nil {
		// A client that opts into the plan starts with its first stage, because part of the target may still
		// be unanswered.
		s.begin()
	}
}

// advance sends what may be sent now. When a change is complete it continues with the newest snapshot.
func (s *Stream) advance() error {
	if s.view.Snapshot() == nil {
		return nil // hold requests until there is a snapshot
	}
	for {
		s.aim()
		s.startReconnect()
		if err := s.flush(); err != nil {
			return err
		}
		if s.progress == nil {
			s.news = nil // later requests are not part of the change
			s.moved()
			return nil
		}
		if !s.nextStage() {
			s.moved()
			return nil
		}
	}
}

// aim makes the newest snapshot the target, unless a change is under way. While a client is still naming what
// it has from an earlier stream, the target may still be replaced. The first snapshot for a client that has
// nothing needs no order, and is no news.
func (s *Stream) aim() {
	if s.target != nil && (s.progress != nil && !s.reconnecting() || s.target == s.view.Snapshot()) {
		return
	}
	first, oldest := s.target == nil, s.news
	if s.target, s.news = s.view.Take(); first {
		s.news = nil
	} else if s.progress != nil {
		s.news = cmp.Or(oldest, s.news)
	} else if s.planned() {
		s.begin()
	}
	s.moved()
	for _, sub := range s.subs {
		sub.aim(s.target)
	}
}

// begin starts the plan for a change.
func (s *Stream) begin() {
	s.progress, s.over = s.cfg.Plan.start(s.cfg.Patience, s.over), nil
}

// moved publishes the stream's revision and stage, before the stream may block there.
func (s *Stream) moved() {
	stage := 0
	if s.progress != nil {
		stage = s.progress.stage + 1
	}
	if s.target != s.reported || stage != s.reportedStage {
		s.reported, s.reportedStage = s.target, stage
		s.status.move(s.target.Revision, stage, len(s.cfg.Plan.Stages))
	}
}

// planned reports whether this stream's changes follow the plan.
func (s *Stream) planned() bool {
	if len(s.cfg.Plan.Stages) == 0 {
		return false
	}
	if s.cfg.Plan.When == "" {
		return true
	}
	for _, sub := range s.subs {
		if sub.canonical == s.cfg.Plan.When {
			return true
		}
	}
	return false
}

func (s *Stream) tellAsked(sub *subscription, r *wire.Request) {
	if s.cfg.Asked != nil && len(r.Subscribe) > 0 {
		s.cfg.Asked(s, sub.canonical, r.Subscribe, r.Held)
	}
}

func (s *Stream) tellAbsent(sub *subscription, st step) {
	if s.cfg.Absent == nil {
		return
	}
	for _, name := range st.absent {
		s.cfg.Absent(s, sub.canonical, name)
	}
}

func (s *Stream) tellDropped(sub *subscription, names []string) {
	if s.cfg.Dropped == nil {
		return
	}
	for _, name := range names {
		s.cfg.Dropped(s, sub.canonical, name)
	}
}

// allowed returns how much of a type's change may be sent now.
func (s *Stream) allowed(sub *subscription) extent {
	if s.progress == nil {
		return everything
	}
	return sub.typePlan.extents[s.progress.stage]
}

// nextStage moves to the next stage if the current one is done, and ends the plan after the last.
func (s *Stream) nextStage() bool {
	if !s.stageDone() {
		return false
	}
	if s.progress.stage == len(s.cfg.Plan.Stages)-1 {
		s.progress.stop()
		s.progress, s.over = nil, s.progress
	} else {
		s.progress.next(s.cfg.Patience, func(x expectation) bool { return !s.due(x) })
	}
	return true
}

func (s *Stream) stageDone() bool {
	if s.progress.impatient {
		return true
	}
	stage := s.progress.stage
	for _, sub := range s.subs {
		if !sub.typePlan.in[stage] {
			continue
		}
		if !sub.settled(s.allowed(sub)) {
			return false
		}
		if sub.pending != "" && !s.cfg.Plan.Stages[stage].Overlap {
			return false
		}
	}
	return s.complete() && len(s.missing()) == 0
}

func (s *Stream) waitingFor() []string {
	var types []string
	for _, sub := range s.subs {
		if sub.pending != "" {
			types = append(types, sub.typeURL)
		}
	}
	for _, x := range s.progress.expected {
		types = append(types, x.ref.TypeURL+" "+x.ref.Name)
	}
	return append(types, s.missing()...)
}

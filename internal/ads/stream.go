package ads

import (
	"cmp"
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Stream is one client's stream. Only its own goroutine touches it, but for the exported methods.
type Stream struct {
	cfg    *Config
	lanes  *lanes
	wire   wire
	view   *Subscriber
	node   *corev3.Node
	peer   string
	reader string // to whom its requests are counted
	since  time.Time

	ctx     context.Context //nolint:containedctx // it is the stream's own
	turn    turn
	account account // what others may ask for

	subs  []*subscription // in the order in which the client first asked
	nonce uint64

	target    *Snapshot // what the client is being brought to
	news      *News     // what has led to that, while it is on its way; nil if nobody knows, or it is what the client is sent first
	progress  *progress // how far a plan has come; nil while nothing is on its way
	told      *Snapshot // what others were told last that the client is being brought to, and at which stage
	toldStage int
	over      *progress // one that has ended, whose timer can be used again
	wake      time.Time // when something may be tried again, or is waited for no longer; zero for nothing
	alarm     *time.Timer
	renewed   []Ref // what a client needs again of types that it has not asked for yet
	returned  bool  // it has brought something from an earlier stream, for which no plan has begun yet
	spoken    bool  // it has answered a response
}

func newStream(ctx context.Context, on *Server, w wire, view *Subscriber, node *corev3.Node) *Stream {
	s := &Stream{cfg: &on.cfg, lanes: &on.lanes, wire: w, view: view, node: node, since: time.Now(), peer: peerOf(ctx), reader: on.cfg.Reader(ctx), ctx: ctx}
	s.turn.limits = on.limits
	return s
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// Node is the node that the client introduced itself with.
func (s *Stream) Node() *corev3.Node { return s.node }

// Peer is the address that the client has connected from.
func (s *Stream) Peer() string { return s.peer }

// Since is when the client introduced itself.
func (s *Stream) Since() time.Time { return s.since }

// Subscriber is where the stream's snapshots come from, as Open returned it.
func (s *Stream) Subscriber() *Subscriber { return s.view }

// Incremental tells whether the client speaks the delta form.
func (s *Stream) Incremental() bool { return s.wire.incremental() }

func (s *Stream) run(ctx context.Context, first *request, requests <-chan *request, failed <-chan error, done <-chan struct{}) error {
	if err := s.handle(first); err != nil {
		return err
	}
	for {
		if err := s.advance(); err != nil {
			return err
		}
		s.letGo(false)
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

// hurry goes on without the answers of a client that takes too long. It is not in run, which a thousand stacks have on them.
func (s *Stream) hurry() {
	s.progress.impatient = true
	s.cfg.Log.Warn("a client does not answer, or ask for what it must have: sending it the rest of a change without waiting",
		"node", s.node.GetId(), "revision", s.target.Revision, "waiting_for", s.waitingFor())
}

// maxTypes is far more than there are, with all their aliases. Without a bound a client could have the server remember names for it
// for as long as it likes.
const maxTypes = 1000

// longestType is far more than the URL of any type has, which is kept for as long as the stream lasts.
const longestType = 1 << 10

// handle takes in one request. What it calls for is sent by advance.
func (s *Stream) handle(r *request) error {
	err := s.understand(r)
	s.hold(r)
	return err
}

func (s *Stream) understand(r *request) error {
	if len(r.typeURL) > longestType {
		return status.Errorf(codes.InvalidArgument, "a type has %d characters, and may have %d", len(r.typeURL), longestType)
	}
	sub := s.subscription(r.typeURL)
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
		s.hear(sub, r)
		s.note(sub)
	case len(s.subs) == maxTypes:
		return status.Errorf(codes.ResourceExhausted, "a stream may ask for %d types, and this one asks for more: open another", maxTypes)
	default:
		// Whatever its nonce says: a first request on this stream is a first request. Stock istiod sends a clock there.
		s.subscribe(r)
	}
	return nil
}

// namesAfter is how many names the stream has at most once it has taken in a request.
func (s *Stream) namesAfter(sub *subscription, r *request) int {
	names := len(r.names) + len(r.subscribe) + len(r.held)
	for _, other := range s.subs {
		if other != sub || s.wire.incremental() {
			names += other.named()
		}
	}
	return names
}

// hear takes in what a client says of a type that it has asked for before.
func (s *Stream) hear(sub *subscription, r *request) {
	switch {
	case r.nonce == "":
	case r.nonce == sub.pending:
		s.answered(sub, r)
	case r.failure != nil && sub.isPart(r.nonce):
		sub.accuse(r.nonce)
		s.refused(sub, r)
	}
	if s.wire.incremental() {
		sub.drop(r.unsubscribe)
		s.tellDropped(sub, r.unsubscribe)
		sub.confirm(r.unsubscribe)
		s.tellAsked(sub, r)
		sub.want(r.subscribe, true)
		sub.owns.heard(sub, r)
		return
	}
	if r.nonce == "" {
		sub.restart()
	}
	// What a client wants is what it said last, even if a response is on its way that it had not seen when it said so.
	s.tellDropped(sub, sub.replace(r.names))
}

// subscription finds what the client said of a type, nil if it has said nothing. Types are few: a map a stream would cost more.
func (s *Stream) subscription(typeURL string) *subscription {
	for _, sub := range s.subs {
		if sub.typeURL == typeURL {
			return sub
		}
	}
	return nil
}

func (s *Stream) subscribe(r *request) {
	sub := newSubscription(r.typeURL, s.cfg.Canonical(r.typeURL))
	sub.lane, sub.outlives = s.lanes.of(sub.canonical), s.wire.incremental() && s.cfg.Outlive(sub.canonical)
	if s.target != nil {
		sub.aim(s.target)
	}
	names := r.names
	if s.wire.incremental() {
		names = r.subscribe
	}
	sub.wildcard = len(names) == 0 && (s.wire.incremental() || !s.cfg.Named(sub.canonical))
	if s.cfg.Asked != nil && s.wire.incremental() {
		s.cfg.Asked(s, sub.canonical, r.subscribe, r.held) // also of nothing: who has nothing of a type says so
	}
	sub.begin(s.unheld(sub.canonical, r.held))
	sub.want(names, false)
	if !sub.wildcard {
		sub.keepNamed() // what it holds and does not ask for is its own affair
	}
	s.relate(sub)
	s.subs = append(s.subs, sub)
	s.account.enter(sub)
	s.resumes(sub)
	if s.cfg.Plan.When != "" && s.cfg.Plan.When == sub.canonical && s.progress == nil {
		// Who joins a plan begins with its first stage: a part of the target may be waiting for an answer still.
		s.begin()
	}
}

// advance sends what may be sent now. When one change has arrived it goes on to the newest.
func (s *Stream) advance() error {
	if s.view.Snapshot() == nil {
		return nil // requests are held until there is something to answer them from
	}
	for {
		s.aim()
		s.resume()
		if err := s.flush(); err != nil {
			return err
		}
		if s.progress == nil {
			s.news = nil // what is asked for from now on is no part of it
			s.moved()
			return nil
		}
		if !s.nextStage() {
			s.moved()
			return nil
		}
	}
}

// aim makes the newest snapshot the stream's target, unless a change is on its way. While a client is still saying what it has from an earlier
// stream, what it is offered may follow from that. What a stream is sent first to a client that has nothing need not be in order, and is no news.
func (s *Stream) aim() {
	if s.target != nil && (s.progress != nil && !s.gathers() || s.target == s.view.Snapshot()) {
		return
	}
	first, oldest := s.target == nil, s.news
	if s.target, s.news = s.view.take(); first {
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

// moved notes where the stream has come to, before it is held up there.
func (s *Stream) moved() {
	stage := 0
	if s.progress != nil {
		stage = s.progress.stage + 1
	}
	if s.target != s.told || stage != s.toldStage {
		s.told, s.toldStage = s.target, stage
		s.account.move(s.target.Revision, stage, len(s.cfg.Plan.Stages))
	}
}

// planned tells whether this stream's changes follow the plan.
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

func (s *Stream) tellAsked(sub *subscription, r *request) {
	if s.cfg.Asked != nil && len(r.subscribe) > 0 {
		s.cfg.Asked(s, sub.canonical, r.subscribe, r.held)
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

// allowed tells how much of the way to the target may be sent for a type now.
func (s *Stream) allowed(sub *subscription) extent {
	if s.progress == nil {
		return everything
	}
	return sub.lane.extents[s.progress.stage]
}

// nextStage goes on in the plan if the current stage is done, and ends the plan after the last.
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
		if !sub.lane.in[stage] {
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

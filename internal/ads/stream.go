package ads

import (
	"context"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Stream is one client's stream. Only its own goroutine touches it, but for the exported methods.
type Stream struct {
	cfg   *Config
	lanes *lanes
	wire  wire
	view  *Subscriber
	node  *corev3.Node

	subs  []*subscription // in the order in which the client first asked
	nonce uint64

	target   *Snapshot // what the client is being brought to
	progress *progress // how far a plan has come; nil while nothing is on its way
	renewed  []Ref     // what a client needs again of types that it has not asked for yet
}

func newStream(on *Server, w wire, view *Subscriber, node *corev3.Node) *Stream {
	return &Stream{cfg: &on.cfg, lanes: &on.lanes, wire: w, view: view, node: node}
}

// Node is the node that the client introduced itself with.
func (s *Stream) Node() *corev3.Node { return s.node }

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
		select {
		case r := <-requests:
			if err := s.handle(r); err != nil {
				return err
			}
		case <-s.view.Changed():
		case <-s.progress.overdue():
			s.hurry()
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
	s.cfg.Log.Warn("a client does not answer: sending it the rest of a change without waiting",
		"node", s.node.GetId(), "revision", s.target.Revision, "waiting_for", s.waitingFor())
}

// maxTypes is far more than there are, with all their aliases. Without a bound a client could have the server remember names for it
// for as long as it likes.
const maxTypes = 1000

// handle takes in one request. What it calls for is sent by advance.
func (s *Stream) handle(r *request) error {
	sub := s.subscription(r.typeURL)
	switch {
	case sub != nil:
		s.hear(sub, r)
	case len(s.subs) == maxTypes:
		return status.Errorf(codes.ResourceExhausted, "a stream may ask for %d types, and this one asks for more: open another", maxTypes)
	default:
		// Whatever its nonce says: a first request on this stream is a first request. Stock istiod sends a clock there.
		s.subscribe(r)
	}
	return nil
}

// hear takes in what a client says of a type that it has asked for before.
func (s *Stream) hear(sub *subscription, r *request) {
	switch {
	case r.nonce == "":
	case r.nonce == sub.pending:
		s.answered(sub, r)
	case r.failure != nil && sub.isPart(r.nonce):
		sub.partRefused = true
		s.refused(sub, r)
	}
	if s.wire.incremental() {
		sub.drop(r.unsubscribe)
		s.tellDropped(sub, r.unsubscribe)
		sub.confirm(r.unsubscribe)
		sub.want(r.subscribe, true)
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
	sub.lane = s.lanes.of(sub.canonical)
	if s.target != nil {
		sub.aim(s.target)
	}
	names := r.names
	if s.wire.incremental() {
		names = r.subscribe
	}
	sub.wildcard = len(names) == 0 && (s.wire.incremental() || !s.cfg.Named(sub.canonical))
	sub.begin(s.unheld(sub.canonical, r.held))
	sub.want(names, false)
	if !sub.wildcard {
		sub.have = sub.named() // what it holds and does not ask for is its own affair
	}
	s.subs = append(s.subs, sub)
	if s.cfg.Plan.When != "" && s.cfg.Plan.When == sub.canonical && s.progress == nil {
		// Who joins a plan begins with its first stage: a part of the target may be waiting for an answer still.
		s.progress = s.cfg.Plan.start(s.cfg.Patience)
	}
}

// answered takes in what a client says to the last part of a response, by which it has answered all of it.
func (s *Stream) answered(sub *subscription, r *request) {
	sub.pending, sub.refused = "", r.failure != nil || sub.partRefused
	switch {
	case r.failure != nil:
		s.refused(sub, r)
	case !sub.partRefused:
		s.cfg.Observer.Acked(s, sub.typeURL, sub.revision)
	}
}

func (s *Stream) refused(sub *subscription, r *request) {
	s.progress.refused(sub)
	// The same content is not sent again: it would be refused again.
	s.cfg.Observer.Nacked(s, sub.typeURL, sub.revision, r.failure.GetMessage())
	s.cfg.Log.Warn("a client refused a response and keeps what it had",
		"node", s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "reason", r.failure.GetMessage())
}

// advance sends what may be sent now. When one change has arrived it goes on to the newest.
func (s *Stream) advance() error {
	newest := s.view.Snapshot()
	if newest == nil {
		return nil // requests are held until there is something to answer them from
	}
	for {
		s.aim(newest)
		if err := s.flush(); err != nil {
			return err
		}
		if s.progress == nil || !s.nextStage() {
			return nil
		}
	}
}

// aim makes a snapshot the stream's target, unless a change is on its way. What a stream is sent first need not be in order.
func (s *Stream) aim(newest *Snapshot) {
	if s.target != nil && s.progress != nil {
		return
	}
	if s.target != nil && s.target != newest && s.planned() {
		s.progress = s.cfg.Plan.start(s.cfg.Patience)
	}
	if s.target != newest {
		s.target = newest
		for _, sub := range s.subs {
			sub.aim(newest)
		}
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

// flush sends each type's part of the change that the stream may have now, one unanswered response a type.
func (s *Stream) flush() error {
	for again := true; again; {
		again = false
		for _, sub := range s.subs {
			if sub.pending != "" {
				continue
			}
			e := s.allowed(sub)
			if sub.settled(e) {
				continue
			}
			due := sub.unanswered
			st := sub.advance(sub.target, e)
			s.tellAbsent(sub, st)
			s.refer(sub, st) // which may ask for something of a type that is passed already
			again = true
			if err := s.send(sub, st, due); err != nil {
				return err
			}
		}
	}
	return nil
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

// allowed tells how much of the way to the target may be sent for a type now. Nothing is broken while the client refuses
// something that was to replace it: it is still using the old.
func (s *Stream) allowed(sub *subscription) extent {
	e := everything
	if s.progress != nil {
		e = sub.lane.extents[s.progress.stage]
	}
	if e == everything && sub.lane.breaks && slices.ContainsFunc(s.subs, (*subscription).isRefused) {
		return additions
	}
	return e
}

// send puts a step into the form that the client speaks. A response that is due is sent even if it says nothing.
func (s *Stream) send(sub *subscription, st step, due bool) error {
	resources, removed := st.changed, st.removed
	switch {
	case s.piecemeal(sub) && len(resources) == 0:
		return nil // this form cannot say that something is gone
	case st.empty() && !due:
		return nil
	case !s.wire.incremental() && !s.piecemeal(sub):
		resources, removed = slices.Collect(sub.have.All()), nil
	}
	return s.sendParts(sub, resources, removed)
}

// sendParts sends what a client may take as one response, in more than one message if it is large and the form allows that. They
// follow one another without waiting: gRPC's flow control holds back what the client does not read, and no copy is made of it.
func (s *Stream) sendParts(sub *subscription, resources []*Resource, removed []string) error {
	most := 0
	if s.wire.incremental() {
		most = s.cfg.MostBytes
	}
	sub.revision, sub.oldest, sub.partRefused, sub.largest = s.target.Revision, s.nonce+1, false, 0
	for p := range parts(resources, removed, most) {
		s.nonce++
		sub.pending, sub.largest = strconv.FormatUint(s.nonce, 10), max(sub.largest, p.size())
		s.cfg.Observer.Sent(s, sub.typeURL, sub.revision, len(p.resources), len(p.removed))
		if err := s.wire.send(&response{
			typeURL: sub.typeURL, revision: sub.revision, nonce: sub.pending, resources: p.resources, removed: p.removed,
		}); err != nil {
			return err
		}
	}
	return nil
}

// piecemeal tells whether a response of a state-of-the-world stream speaks only of the resources in it: what is absent from
// any other is gone.
func (s *Stream) piecemeal(sub *subscription) bool {
	return !s.wire.incremental() && !sub.wildcard && s.cfg.Named(sub.canonical)
}

// nextStage goes on in the plan if the current stage is done, and ends the plan after the last.
func (s *Stream) nextStage() bool {
	if !s.stageDone() {
		return false
	}
	s.progress.next(s.cfg.Patience, func(x expectation) bool { return !s.due(x) })
	if s.progress.stage == len(s.cfg.Plan.Stages) {
		s.progress.stop()
		s.progress = nil
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
	return s.complete()
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
	return types
}

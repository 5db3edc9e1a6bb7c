package ads

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
)

// maxTypes is far above the number of real types and aliases. Without it a client could make the
// server keep any number of names.
const maxTypes = 1000

// maxTypeLength is far above the length of any real type URL. The server keeps the URL for the life
// of the stream.
const maxTypeLength = 1 << 10

// handle processes a request. advance sends what it calls for.
func (s *Stream) handle(r *wire.Request) error {
	err := s.process(r)
	s.holdMemory(r)
	return err
}

// process checks a request against the stream's limits, and passes it to its subscription, which
// the first request for a type creates.
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
		// The first request for a type on this stream is a first request, whatever its nonce. Stock
		// istiod sends a timestamp there.
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

// subscribe handles the first request for a type on this stream. A delta client may name what it
// has from an earlier one.
func (s *Stream) subscribe(r *wire.Request) {
	sub := newSubscription(r.TypeURL, s.cfg.Canonical(r.TypeURL))
	sub.typePlan, sub.outlives = s.typePlans.of(sub.canonical), s.form.Incremental() && s.cfg.Outlive(sub.canonical)
	sub.sticks = s.cfg.Sticks[sub.canonical]
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
		// A client that opts into the plan starts with its first stage, because part of the target
		// may still be unanswered.
		s.begin()
	}
}

func (s *Stream) tellAsked(sub *subscription, r *wire.Request) {
	if s.cfg.Asked != nil && len(r.Subscribe) > 0 {
		s.cfg.Asked(s, sub.canonical, r.Subscribe, r.Held)
	}
}

func (s *Stream) tellAbsent(sub *subscription, st step, before *served.Set) {
	if s.cfg.Absent != nil {
		for _, name := range st.absent {
			s.cfg.Absent(s, sub.canonical, name)
		}
	}
	if s.cfg.Taken == nil {
		return
	}
	for _, name := range st.removed {
		if before.Get(name) != nil && sub.asksFor(name) {
			s.cfg.Taken(s, sub.canonical, name)
		}
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

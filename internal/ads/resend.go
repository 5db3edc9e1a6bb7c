package ads

import "github.com/pgmesh/pgmesh/internal/ads/wire"

// The protocol demands that a state-of-the-world client that asks without a nonce gets everything
// it wants of the type again, and that a delta client gets each resource again that it names
// although it has it: it may have lost them. A client that does this all the time would be sent as
// much as the network takes. Budgets.Again bounds it for all clients together.

// repeats waits until the budget admits a request for what was sent already.
func (s *Stream) repeats(sub *subscription, r *wire.Request) error {
	return s.cfg.Budgets.Again.Take(s.ctx, s.reader, s.statesAgain(sub, r))
}

// statesAgain returns how many whole states a request asks for again.
func (s *Stream) statesAgain(sub *subscription, r *wire.Request) int {
	switch per := s.cfg.Limits.NamesAgain; {
	case sub == nil:
		return 0
	case !s.form.Incremental():
		if r.Nonce == "" {
			return 1
		}
	case per > 0:
		return sub.hasOf(r.Subscribe) / per
	}
	return 0
}

// hasOf counts the names that the client has.
func (s *subscription) hasOf(names []string) (n int) {
	for _, name := range names {
		if s.have.Get(name) != nil {
			n++
		}
	}
	return n
}

package ads

// A client of the state of the world that asks without a nonce is sent all that it wants of the type once more, and an incremental one each resource that it
// names although it has it. That is what the protocol demands when somebody has lost what it had. Who does it all the time is sent as much as the network
// takes. So what is sent again is bounded, for all clients together.

// repeats waits until a request may be taken in that asks for what was sent already.
func (s *Stream) repeats(sub *subscription, r *request) error {
	return s.cfg.Budgets.Again.Take(s.ctx, s.reader, s.statesAgain(sub, r))
}

// statesAgain is how many whole states a request asks for once more.
func (s *Stream) statesAgain(sub *subscription, r *request) int {
	switch per := s.cfg.Limits.NamesAgain; {
	case sub == nil:
		return 0
	case !s.wire.incremental():
		if r.nonce == "" {
			return 1
		}
	case per > 0:
		return sub.hasOf(r.subscribe) / per
	}
	return 0
}

// hasOf counts which of some names the client has.
func (s *subscription) hasOf(names []string) (n int) {
	for _, name := range names {
		if s.have.Get(name) != nil {
			n++
		}
	}
	return n
}

package ads

// A client of the delta form that comes back says with its first request for a type what it has of it, and goes on using that. So what it is sent
// first is a change like any other, and follows the plan: what is gone is not taken away before the client has what leads elsewhere. Until the
// first stage is over the client may still be saying what it has.
//
// Envoy asks on a new stream for all types one after the other before it looks at an answer, but for clusters while some are warming: those it asks for
// when they are warm. So who has answered anything has asked for everything; and who has what clusters refer to has clusters, and will ask for them. A
// client that has nothing waits for nothing.

// resumes notes that a client has brought something of a type that the plan is about.
func (s *Stream) resumes(sub *subscription) {
	if s.cfg.Plan.When == "" && sub.have.Len() > 0 && sub.lane.begins < len(s.cfg.Plan.Stages) {
		s.returned = true
	}
}

// resume starts the plan for a client that has brought something.
func (s *Stream) resume() {
	if s.returned {
		s.returned = false
		if s.progress == nil {
			s.begin()
		}
		s.progress.gathers = s.progress.stage == 0
	}
	if s.gathers() && s.spoken && !s.progress.repeats {
		s.repeatForMissing()
	}
}

// gathers tells whether a plan is at its first stage for a client that may still be saying what it has.
func (s *Stream) gathers() bool { return s.progress != nil && s.progress.gathers }

// missing lists the types of the first stage that a client that comes back has not asked for, but may: until it has answered something those that
// there is something of, from then on those that refer to what it asks for.
func (s *Stream) missing() (types []string) {
	if !s.gathers() {
		return nil
	}
	for _, typeURL := range s.cfg.Plan.Stages[0].Types {
		if s.of(typeURL) == nil && s.target.Sets[typeURL].Len() > 0 && (!s.spoken || s.askedFor(typeURL) != nil) {
			types = append(types, typeURL)
		}
	}
	return types
}

// of finds what the client said of a canonical type.
func (s *Stream) of(canonical string) *subscription {
	for _, sub := range s.subs {
		if sub.canonical == canonical {
			return sub
		}
	}
	return nil
}

// askedFor finds a type that resources of another type refer to, and that the client asks for.
func (s *Stream) askedFor(because string) *subscription {
	for r := range s.target.Sets[because].All() {
		for _, ref := range r.Refs {
			if sub := s.of(ref.TypeURL); sub != nil {
				return sub
			}
		}
	}
	return nil
}

// repeatForMissing sends a client once more what it asks for because of what it does not ask for yet. That may be waiting for nothing else: a
// cluster that changed before the last stream ended warms until its endpoints come again, and the client claims to have them.
func (s *Stream) repeatForMissing() {
	for _, typeURL := range s.missing() {
		sub := s.askedFor(typeURL)
		for _, name := range namesOf(sub.have) {
			sub.repeat(name)
		}
		s.progress.repeats = true
	}
}

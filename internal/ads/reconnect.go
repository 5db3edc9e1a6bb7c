package ads

// A delta client that reconnects names, with its first request for each type, what it has, and
// keeps using it. So its first update is a change like any other and follows the plan: nothing is
// removed before the client has what replaces it. Until the first stage is over, the client may
// still be naming what it has.
//
// On a new stream Envoy asks for all types in a row before it reads an answer, except for clusters
// while some are warming: it asks for those once they are warm. So a client that has answered
// anything has asked for everything else. A client that has what clusters refer to also has
// clusters, and will ask for them. For a client that has nothing, nothing waits.

// noteReconnect notes that a client has resources of a type in the plan from an earlier stream.
func (s *Stream) noteReconnect(sub *subscription) {
	if s.cfg.Plan.When == "" && sub.have.Len() > 0 && sub.typePlan.begins < len(s.cfg.Plan.Stages) {
		s.reconnected = true
		s.status.returns()
	}
}

// startReconnect starts the plan for such a client.
func (s *Stream) startReconnect() {
	if s.reconnected {
		s.reconnected = false
		if s.progress == nil {
			s.begin()
		}
		s.progress.reconnecting = s.progress.stage == 0
	}
	if s.reconnecting() && s.answeredOnce && !s.progress.repeats {
		s.repeatForMissing()
	}
}

// reconnecting reports whether the plan is at its first stage for a client that may still be naming
// what it has.
func (s *Stream) reconnecting() bool { return s.progress != nil && s.progress.reconnecting }

// missing lists the first stage's types that a reconnecting client may still ask for. Until its
// first answer these are all non-empty types that it has not asked for; afterwards only those that
// refer to a type that it asks for.
func (s *Stream) missing() (types []string) {
	if !s.reconnecting() {
		return nil
	}
	for _, typeURL := range s.cfg.Plan.Stages[0].Types {
		if s.of(typeURL) == nil && s.target.Sets[typeURL].Len() > 0 && (!s.answeredOnce || s.askedFor(typeURL) != nil) {
			types = append(types, typeURL)
		}
	}
	return types
}

// of returns the subscription to a canonical type, or nil.
func (s *Stream) of(canonical string) *subscription {
	for _, sub := range s.subs {
		if sub.canonical == canonical {
			return sub
		}
	}
	return nil
}

// askedFor returns a subscription to a type that resources of another type refer to, or nil.
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

// repeatForMissing sends again what the resources of missing types refer to. A client may wait for
// exactly that: a cluster that changed before the last stream ended warms until its endpoints come
// again, although the client says that it has them.
func (s *Stream) repeatForMissing() {
	for _, typeURL := range s.missing() {
		sub := s.askedFor(typeURL)
		for _, name := range sub.have.Names() {
			sub.repeat(name)
		}
		s.progress.repeats = true
	}
}

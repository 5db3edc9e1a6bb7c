package ads

import "time"

// A client may not answer a response for longer than newer changes should wait. Envoy answers for
// clusters when none is warming, which can take as long as a health check, or, for a cluster that
// it refuses late, forever: until a better one replaces it. So after a while the stream sends the
// newer state, together with everything unanswered.

// Sending more does not help a client that is merely slow. So the stream waits five times
// Config.Patience, and twice as long after each attempt without an answer, up to eight times that.
const overtakePatience, maxDoublings = 5, 3

// overtake reports whether to stop waiting for the answer to a type's response. If so, it takes the
// response back.
func (s *Stream) overtake(sub *subscription) bool {
	if sub.delivery == nil || !sub.regular(s.allowed(sub)) {
		return false
	}
	if until := sub.record.sent.At.Add(s.cfg.Patience * overtakePatience << min(sub.overtaken, maxDoublings)); time.Now().Before(until) {
		s.wakeAt(until)
		return false
	}
	s.cfg.Log.Warn("a client has not answered a response for long: sending it again what was in it, with what is newer",
		s.cfg.Called, s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "newest", s.target.Revision)
	sub.overtaken++
	sub.takeBack(s.whole(sub))
	return true
}

// takeBack treats an unanswered response as not sent, except that the client may have applied it.
func (s *subscription) takeBack(whole bool) {
	d := s.delivery
	s.pending, s.delivery = "", nil
	beliefs := make([]belief, 0, len(d.changed))
	for _, r := range d.changed {
		before := d.before.Get(r.Name)
		switch {
		case s.quarantine.InDoubt(r.Name):
			before = s.quarantine.Get(r.Name).Accepted
		case !s.wants(r.Name):
			continue
		}
		if !whole {
			before = nil
		}
		beliefs = append(beliefs, belief{r.Name, before})
	}
	if s.quarantine != nil {
		s.quarantine.Overtaken(d.changed)
	}
	s.believe(beliefs, whole)
	s.removeAgain(d.removed, whole)
	s.reconsider()
	if whole {
		s.restate() // even if nothing has changed
	}
}

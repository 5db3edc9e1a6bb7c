package ads

import "time"

// A client may owe the answer to a response for longer than anybody should wait for what is newer. Envoy answers for clusters when none is
// warming, and that may take as long as a health check does, or, for a cluster that it refuses late, forever: until a better one takes its place.
// So after a while what is newer is sent, with everything that the client has not answered for.

// A client that is merely slow is not helped by being sent more: it is given five times the patience that a plan has for it, and each time that is
// in vain twice as much as before, up to eight times.
const patient, mostDoublings = 5, 3

// overtake tells whether a type's unanswered response is no longer waited for, which it then is not.
func (s *Stream) overtake(sub *subscription) bool {
	if sub.delivery == nil || !sub.regular(s.allowed(sub)) {
		return false
	}
	if until := sub.record.sent.At.Add(s.cfg.Patience * patient << min(sub.overtaken, mostDoublings)); time.Now().Before(until) {
		s.wakeAt(until)
		return false
	}
	s.cfg.Log.Warn("a client has not answered a response for long: sending it again what was in it, with what is newer",
		"node", s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "newest", s.target.Revision)
	sub.overtaken++
	sub.takeBack(s.whole(sub))
	return true
}

// takeBack makes a response that was not answered as if it had not been sent, but that the client may have taken it.
func (s *subscription) takeBack(whole bool) {
	d := s.delivery
	s.pending, s.delivery = "", nil
	var tried []string
	for _, r := range d.changed {
		before := d.before.Get(r.Name)
		switch {
		case s.isolation.doubted(r.Name):
			tried, before = append(tried, r.Name), s.isolation.doubts[r.Name].had
		case !s.wants(r.Name):
			continue
		}
		s.isolation.unsettle(r)
		if whole {
			s.stateAs(r.Name, before, whole)
		} else {
			s.change([]*Resource{{Name: r.Name}}, nil)
		}
	}
	if len(tried) > 0 {
		s.isolation.groups = append([][]string{tried}, s.isolation.groups...)
	}
	s.removeAgain(d.removed, whole)
	s.reconsider()
	if whole {
		s.restate() // even if all is as it was
	}
}

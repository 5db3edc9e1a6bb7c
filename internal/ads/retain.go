package ads

// A resource that the client refuses leaves in force what it was to replace, and nobody here knows what that makes use of: names of clusters
// are in a listener's text, and may be made up while it runs. So what the client has when it refuses something is not taken from it
// while it does, as far as a plan makes it before, or together with, what is refused: clusters stay while a listener is refused, listeners go
// while a cluster is. What comes to the client later was not there for the old version to use, and goes as ever.

// keep holds on to what a refused resource of a type may make use of.
func (s *Stream) keep(refused *subscription) {
	for _, sub := range s.subs {
		if sub.lane.breaks && sub.lane.usedBy(refused.lane) {
			sub.kept = sub.have
		}
	}
}

// release lets go of what was held on to for what the client refuses no longer.
func (s *Stream) release() {
	for _, sub := range s.subs {
		if sub.kept != nil && !s.usedByRefused(sub) {
			sub.kept = nil
			sub.reconsider()
		}
	}
}

func (s *Stream) usedByRefused(sub *subscription) bool {
	for _, other := range s.subs {
		if other.refuses() && sub.lane.usedBy(other.lane) {
			return true
		}
	}
	return false
}

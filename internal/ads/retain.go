package ads

// When a client refuses a resource, the old version stays in force, and it may use other resources
// that the server cannot know: a listener's text contains names of clusters, or makes them up at
// run time. So while a client refuses something, it keeps the resources that it had then, as far as
// the plan makes them before, or together with, the refused type: clusters stay while a listener is
// refused, but listeners go while a cluster is. Resources that the client gets later were not there
// for the old version to use, and are removed as usual.

// retainFor retains what a refused resource of a type may use.
func (s *Stream) retainFor(refused *subscription) {
	for _, sub := range s.subs {
		if sub.typePlan.breaks && sub.typePlan.usedBy(refused.typePlan) {
			sub.retained = sub.have
		}
	}
}

// releaseRetained releases what no refused resource can use any more.
func (s *Stream) releaseRetained() {
	for _, sub := range s.subs {
		if sub.retained != nil && !s.usedByRefused(sub) {
			sub.retained = nil
			sub.reconsider()
		}
	}
}

func (s *Stream) usedByRefused(sub *subscription) bool {
	for _, other := range s.subs {
		if other.quarantine != nil && sub.typePlan.usedBy(other.typePlan) {
			return true
		}
	}
	return false
}

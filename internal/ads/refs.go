package ads

import (
	"iter"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// refer handles a step's references. The plan waits for those that the client will ask for; those
// that it already has are sent again.
func (s *Stream) refer(from *subscription, st step) {
	if s.progress != nil {
		s.progress.warming = s.progress.warming || slices.ContainsFunc(st.changed, func(r *served.Resource) bool { return r.Warms })
		for ref := range st.toAskFor() {
			s.progress.expected = append(s.progress.expected, expectation{ref, from})
		}
	}
	for _, ref := range st.again {
		s.renew(ref)
	}
}

// toAskFor goes through what the client will ask for because of what changed.
func (st *step) toAskFor() iter.Seq[served.Ref] {
	return func(yield func(served.Ref) bool) {
		if !st.begins {
			slices.Values(st.fresh)(yield)
			return
		}
		for _, r := range st.changed {
			for _, ref := range r.Refs {
				if !yield(ref) {
					return
				}
			}
		}
	}
}

// renew sends a reference of a changed resource again, if the client wants it: Envoy warms a
// changed cluster until its endpoints come, does not ask for them, and takes no notice of those
// that it was sent before.
func (s *Stream) renew(ref served.Ref) {
	known := false
	for _, sub := range s.subs {
		if sub.canonical != ref.TypeURL {
			continue
		}
		known = true
		sub.repeat(ref.Name)
	}
	if !known { // a client that comes back asks for the type next, and names the version that it has
		s.renewed = append(s.renewed, ref)
	}
}

// unheld returns the versions that a client has from an earlier stream, without those that must,
// and can, be sent again.
func (s *Stream) unheld(canonical string, held map[string]string) map[string]string {
	s.renewed = slices.DeleteFunc(s.renewed, func(ref served.Ref) bool {
		if ref.TypeURL != canonical {
			return false
		}
		had := &served.Resource{Version: held[ref.Name]}
		if !emptied(had, s.target.Sets[canonical].Get(ref.Name)) {
			delete(held, ref.Name)
		}
		return true
	})
	return held
}

// arrived reports whether the client has a referenced resource, or cannot have it because it does
// not exist.
func (s *Stream) arrived(ref served.Ref) bool {
	if s.target.Sets[ref.TypeURL].Get(ref.Name) == nil {
		return true
	}
	return slices.ContainsFunc(s.subs, func(sub *subscription) bool {
		return sub.canonical == ref.TypeURL && !s.awaits(sub) && sub.have.Get(ref.Name) != nil
	})
}

// complete reports whether the client has asked for, and received, everything that it needs to use
// what it was sent. A later stage waits for what belongs to that stage.
func (s *Stream) complete() bool {
	p := s.progress
	p.expected = slices.DeleteFunc(p.expected, func(x expectation) bool { return s.arrived(x.ref) })
	return !slices.ContainsFunc(p.expected, s.due)
}

// due reports whether an expectation can be met in the current stage.
func (s *Stream) due(x expectation) bool {
	return s.typePlans.of(x.ref.TypeURL).extents[s.progress.stage] != nothing
}

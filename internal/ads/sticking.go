package ads

import (
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Envoy refuses the configuration of a filter when it makes the filter of it, and has it by then: it
// gives it to each new listener with that filter, which it refuses in turn. So what it accepted last
// has to be sent again.

// frees reports whether the client has now let go of something that it refuses, and that may have
// stuck.
func (s *subscription) frees(v quarantine.Verdict) bool {
	refuses := func(name string) bool {
		known := s.quarantine.Get(name)
		return known != nil && known.Refused != nil
	}
	return s.sticks != "" && (slices.ContainsFunc(v.Removed, refuses) ||
		slices.ContainsFunc(v.Accepted, func(r *served.Resource) bool { return refuses(r.Name) }))
}

// tryRefused has what the client refuses of a type sent again, each alone.
func (s *Stream) tryRefused(canonical string) {
	for _, sub := range s.subs {
		if sub.canonical == canonical && sub.quarantine != nil {
			sub.quarantine.TryRefused()
		}
	}
}

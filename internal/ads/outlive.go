package ads

import "github.com/pgmesh/pgmesh/internal/ads/served"

// Envoy keeps using a replaced listener until its connections have ended, and needs its routes
// until then; nothing says when that is. So when everything with an owner's name is gone, the
// client keeps what it has of it, which costs only the client's memory.

// hasOwned returns a function that reports whether the set has anything with the same owner as a
// name. It is fastest in the order of names.
func hasOwned(s *served.Set) func(name string) bool {
	known, last, is := false, "", false
	return func(name string) bool {
		if owner := served.OwnerOf(name); !known || owner != last {
			known, last, is = true, owner, false
			for range s.OwnedBy(owner) {
				is = true
				break
			}
		}
		return is
	}
}

package ads

import (
	"iter"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// A client that asks for a thousand names usually has nearly all of these resources, and shares the
// set of what it has with similar clients. To avoid a copy of the names per client, the names it
// asks for are those of the resources it has (if namesHave), plus `more`, those it does not have.

// asksFor reports whether the client asks for a resource by name.
func (s *subscription) asksFor(name string) bool {
	return s.more[name] || s.namesHave && s.have.Get(name) != nil
}

// wants reports whether the client asks for a resource, by name or by wildcard.
func (s *subscription) wants(name string) bool { return s.wildcard || s.asksFor(name) }

// named returns how many names the client asks for.
func (s *subscription) named() int {
	if s.namesHave {
		return s.have.Len() + len(s.more)
	}
	return len(s.more)
}

// names iterates over the names that the client asks for, in no order.
func (s *subscription) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range s.more {
			if !yield(name) {
				return
			}
		}
		if !s.namesHave {
			return
		}
		for r := range s.have.All() {
			if !yield(r.Name) {
				return
			}
		}
	}
}

// change updates what the client has. The names it asks for stay the same.
func (s *subscription) change(upserts []*served.Resource, removed []string) {
	s.become(s.have.With(upserts, removed), upserts, removed)
}

// become replaces what the client has by next, which differs from it by upserts and removed.
func (s *subscription) become(next *served.Set, upserts []*served.Resource, removed []string) {
	before := s.have
	s.have = next
	if !s.namesHave {
		return
	}
	for _, r := range upserts {
		delete(s.more, r.Name)
	}
	for _, name := range removed {
		if before.Get(name) != nil && next.Get(name) == nil {
			add(&s.more, name, true)
		}
	}
	s.tidy()
}

// nameHave drops the names of what the client has from more, and sets namesHave. It is for a client
// without a wildcard, which has only what it asks for by name.
func (s *subscription) nameHave() {
	if s.wildcard || s.namesHave {
		return
	}
	for r := range s.have.All() {
		delete(s.more, r.Name)
	}
	s.namesHave = true
	s.tidy()
}

// spellOut puts all names into more, and clears namesHave.
func (s *subscription) spellOut() {
	if !s.namesHave {
		return
	}
	for r := range s.have.All() {
		add(&s.more, r.Name, true)
	}
	s.namesHave = false
}

// tidy frees an empty map, because Go's maps never shrink.
func (s *subscription) tidy() {
	if len(s.more) == 0 {
		s.more = nil
	}
}

// keepNamed reduces what the client has to what it asks for by name.
func (s *subscription) keepNamed() {
	if s.namesHave {
		return
	}
	var kept []*served.Resource
	for name := range s.more {
		if r := s.have.Get(name); r != nil {
			kept = append(kept, r)
		}
	}
	s.have = served.None.With(kept, nil)
}

// asksForJust reports whether the client asks for exactly these names.
func (s *subscription) asksForJust(names []string) bool {
	if s.wildcard || len(names) != s.named() {
		return false
	}
	seen := make([]uint64, 1+s.have.Len()/64)
	var others []string
	for _, name := range names {
		at, has := s.have.Index(name)
		switch {
		case s.namesHave && has:
			if seen[at/64]&(1<<(at%64)) != 0 {
				return false // a duplicate, so another name is missing
			}
			seen[at/64] |= 1 << (at % 64)
		case s.more[name]:
			others = append(others, name)
		default:
			return false
		}
	}
	slices.Sort(others)
	return len(slices.Compact(others)) == len(s.more)
}

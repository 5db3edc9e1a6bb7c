package ads

import (
	"iter"
	"slices"
)

// A client that names a thousand resources has nearly all of them, and the set of what it has is shared with all that are like it. So what it
// asks for by name is what it has, and besides that the names that it does not have: of those alone there is a copy.

// asksFor tells whether the client asks for a resource by its name.
func (s *subscription) asksFor(name string) bool {
	return s.more[name] || s.namesHave && s.have.Get(name) != nil
}

// wants tells whether the client asks for a resource, by name or not.
func (s *subscription) wants(name string) bool { return s.wildcard || s.asksFor(name) }

// named counts the names that the client asks for.
func (s *subscription) named() int {
	if s.namesHave {
		return s.have.Len() + len(s.more)
	}
	return len(s.more)
}

// names goes through what the client asks for by name, in no order.
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

// change changes what the client has. What it asks for by name stays the same.
func (s *subscription) change(upserts []*Resource, removed []string) {
	s.become(s.have.With(upserts, removed), upserts, removed)
}

// become makes a set what the client has, which is what it had with some added or replaced and others removed.
func (s *subscription) become(next *Set, upserts []*Resource, removed []string) {
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

// nameHave keeps no names of what the client has, once it has asked for all of that by name.
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

// spellOut keeps the names by themselves.
func (s *subscription) spellOut() {
	if !s.namesHave {
		return
	}
	for r := range s.have.All() {
		add(&s.more, r.Name, true)
	}
	s.namesHave = false
}

// tidy gives back the memory of names that are no longer needed: a map never shrinks.
func (s *subscription) tidy() {
	if len(s.more) == 0 {
		s.more = nil
	}
}

// keepNamed makes what the client asks for by name all that it has.
func (s *subscription) keepNamed() {
	if s.namesHave {
		return
	}
	var kept []*Resource
	for name := range s.more {
		if r := s.have.Get(name); r != nil {
			kept = append(kept, r)
		}
	}
	s.have = unlogged(nil).With(kept, nil)
}

// asksForJust tells whether the client asks for these names and no others.
func (s *subscription) asksForJust(names []string) bool {
	if s.wildcard || len(names) != s.named() {
		return false
	}
	seen := make([]uint64, 1+s.have.Len()/64)
	var others []string
	for _, name := range names {
		at, has := s.have.pages.index(name)
		switch {
		case s.namesHave && has:
			if seen[at/64]&(1<<(at%64)) != 0 {
				return false // named twice, so that another is not
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

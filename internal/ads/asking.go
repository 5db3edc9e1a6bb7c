package ads

import (
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// want adds names. As the protocol demands, names that the client already has are sent again,
// unless their versions came with the first request.
func (s *subscription) want(names []string, again bool) {
	s.explicit = s.explicit || len(names) > 0
	s.makeRoom(names)
	for _, n := range names {
		switch has := n != "*" && s.have.Get(n) != nil; {
		case n == "*":
			s.spellOut()
			s.wildcard = true
			s.reconsider()
		case !has:
			if r := s.target.Get(n); r != nil {
				n = r.Name // share the string instead of keeping a copy per stream
			}
			add(&s.more, n, true)
			add(&s.asked, n, true)
		default:
			if !s.namesHave {
				add(&s.more, n, true)
			}
			if again {
				s.ask(n)
			}
		}
	}
}

// makeRoom allocates maps of the final size for a first request with many names: growing maps leave
// as much garbage as they end up with, and a thousand clients may come at once.
func (s *subscription) makeRoom(names []string) {
	if s.more == nil && s.asked == nil && s.have.Len() == 0 && len(names) > 1 {
		s.more, s.asked = make(map[string]bool, len(names)), make(map[string]bool, len(names))
	}
}

// ask makes a name part of the next response, whether the client has it or not.
func (s *subscription) ask(name string) {
	add(&s.asked, name, true)
	s.change(nil, []string{name})
}

// repeat sends a resource again if the client has it. A resource known only by its version that has
// become empty cannot be repeated as it was; it is sent in its turn.
func (s *subscription) repeat(name string) {
	if r := s.have.Get(name); r != nil && !emptied(r, s.target.Get(name)) {
		add(&s.repeated, name, r)
		s.ask(name)
	}
}

// emptied reports whether a resource known only by its version has become empty.
func emptied(r, now *served.Resource) bool {
	return r.Body == nil && now != nil && now.Empty && now.Version != r.Version
}

// drop removes names. The client forgets the resources by itself, except those that the wildcard
// still covers.
func (s *subscription) drop(names []string) {
	for _, n := range names {
		if n == "*" {
			s.wildcard = false
			s.keepNamed()
			s.reconsider()
		}
	}
	if !s.wildcard {
		s.change(nil, names)
	}
	for _, n := range names {
		delete(s.more, n)
		delete(s.asked, n)
		delete(s.repeated, n)
	}
	s.tidy()
	s.forgetUnwanted()
}

// confirm answers for names that a client unsubscribed from while the wildcard still covers them:
// it cannot know by itself whether to keep them.
func (s *subscription) confirm(names []string) {
	for _, n := range names {
		if s.wildcard && n != "*" {
			s.ask(n)
		}
	}
}

// replace sets the names that the client wants, and returns those it no longer wants.
func (s *subscription) replace(names []string) (gone []string) {
	if len(names) == 0 && !s.explicit || s.asksForJust(names) {
		return nil
	}
	wanted := make(map[string]bool, len(names))
	var fresh []string
	for _, n := range names {
		wanted[n] = true
		if n == "*" && !s.wildcard || n != "*" && !s.asksFor(n) {
			fresh = append(fresh, n)
		}
	}
	for n := range s.names() {
		if !wanted[n] {
			gone = append(gone, n)
		}
	}
	if s.wildcard && !wanted["*"] {
		gone = append(gone, "*")
	}
	s.explicit = true
	s.drop(gone)
	s.want(fresh, false)
	return gone
}

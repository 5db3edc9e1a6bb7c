package ads

import (
	"maps"
	"slices"
)

// subscription is what one stream wants, has, and is still to be told of one type.
type subscription struct {
	typeURL   string // as the client wrote it
	canonical string

	wildcard bool
	names    map[string]bool // what a client without the wildcard wants

	// have is what the client has once it has applied what was sent.
	have *Set
	// goal is the set that have was last brought to completely, made the one whose additions have all been sent.
	goal, made *Set
	begun      bool // goal has a meaning

	// unanswered asks for a response even if there is nothing to say, asked for one about these names.
	unanswered bool
	asked      map[string]bool

	pending  string // the nonce of the response that the client has not answered
	revision string // the revision of that response
}

func newSubscription(typeURL, canonical string) *subscription {
	return &subscription{
		typeURL: typeURL, canonical: canonical, unanswered: true,
		names: map[string]bool{}, asked: map[string]bool{},
	}
}

// begin takes over what a client still has from an earlier stream.
func (s *subscription) begin(held map[string]string) {
	stubs := make([]*Resource, 0, len(held))
	for name, version := range held {
		stubs = append(stubs, &Resource{Name: name, Version: version})
	}
	s.have = NewSet(stubs...)
}

// want adds names. A name that the client already has is sent again, as the protocol demands, unless its version came with
// the first request.
func (s *subscription) want(names []string, again bool) {
	for _, n := range names {
		if n == "*" {
			s.wildcard, s.begun, s.made = true, false, nil
			continue
		}
		s.names[n] = true
		if s.have.Get(n) == nil || again {
			s.asked[n] = true
			s.have = s.have.With(nil, []string{n})
		}
	}
}

// drop removes names: the client forgets them by itself.
func (s *subscription) drop(names []string) {
	for _, n := range names {
		if n == "*" {
			s.wildcard, s.begun, s.made = false, false, nil
			s.have = s.named()
			continue
		}
		delete(s.names, n)
		delete(s.asked, n)
		if !s.wildcard {
			s.have = s.have.With(nil, []string{n})
		}
	}
}

// named is the part of what the client has that it asked for by name.
func (s *subscription) named() *Set {
	kept := NewSet()
	for n := range s.names {
		if r := s.have.Get(n); r != nil {
			kept = kept.With([]*Resource{r}, nil)
		}
	}
	return kept
}

// replace makes the names all that the client wants.
func (s *subscription) replace(names []string) {
	var gone []string
	for n := range s.names {
		if !slices.Contains(names, n) {
			gone = append(gone, n)
		}
	}
	s.drop(gone)
	for _, n := range names {
		if !s.names[n] {
			s.want([]string{n}, false)
		}
	}
}

// restart forgets what the client has, so that everything is sent again.
func (s *subscription) restart() {
	s.have, s.goal, s.made, s.begun, s.unanswered, s.pending = nil, nil, nil, false, true, ""
	for n := range s.names {
		s.asked[n] = true
	}
}

// settled tells whether nothing is left to send on the way to a goal, as far as may be sent now.
func (s *subscription) settled(goal *Set, e extent) bool {
	if e == nothing {
		return true
	}
	if s.unanswered || len(s.asked) > 0 {
		return false
	}
	return s.begun && (s.goal == goal || e == additions && s.made == goal)
}

// step is what has to be sent to a client.
type step struct {
	changed []*Resource
	removed []string
	// refs are what the client will ask for because of resources that it did not have before.
	refs []Ref
}

func (st *step) empty() bool { return len(st.changed) == 0 && len(st.removed) == 0 }

// advance works out what has to be sent to bring the client towards a goal, and takes it as sent.
func (s *subscription) advance(goal *Set, e extent) step {
	var st step
	for _, name := range s.candidates(goal) {
		now, before := goal.Get(name), s.have.Get(name)
		switch {
		case now == nil && (before != nil && e == everything || before == nil && s.asked[name]):
			st.removed = append(st.removed, name)
		case now != nil && before == nil:
			st.changed, st.refs = append(st.changed, now), append(st.refs, now.Refs...)
		case now != nil && before.Version != now.Version:
			st.changed = append(st.changed, now)
		}
	}
	s.reached(goal, e, st)
	return st
}

func (s *subscription) reached(goal *Set, e extent, st step) {
	s.unanswered = false
	clear(s.asked)
	if e == additions {
		s.made = goal
		s.have = s.have.With(st.changed, nil)
		return
	}
	s.goal, s.made, s.begun = goal, goal, true
	if s.wildcard {
		s.have = goal
	} else {
		s.have = s.have.With(st.changed, st.removed)
	}
}

// candidates lists, in order and once each, the names whose resource may differ between the client and a goal.
func (s *subscription) candidates(goal *Set) []string {
	names, exact := goal.changedSince(s.goal)
	switch {
	case exact && s.begun && !s.wildcard:
		names = slices.DeleteFunc(names, func(n string) bool { return !s.names[n] })
	case exact && s.begun:
	case s.wildcard:
		names = slices.Concat(namesOf(goal), namesOf(s.have))
	default:
		names = slices.Collect(maps.Keys(s.names))
	}
	names = slices.AppendSeq(names, maps.Keys(s.asked))
	slices.Sort(names)
	return slices.Compact(names)
}

func namesOf(set *Set) []string {
	names := make([]string, 0, set.Len())
	for r := range set.All() {
		names = append(names, r.Name)
	}
	return names
}

package ads

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// advance computes the step towards the target, and records it as sent.
func (s *subscription) advance(e extent) step {
	var st step
	goal, isDue := s.target, s.due()
	s.tried = false
	if s.wildcard && s.have.Len() == 0 && len(s.asked) == 0 && s.quarantine == nil { // there is nothing to compare with
		st.changed, st.begins = make([]*served.Resource, 0, goal.Len()), true
		for r := range goal.All() {
			if !isDue(r.Name) {
				st.partly = true
				continue
			}
			st.changed = append(st.changed, r)
			st.grows++
			st.held = st.held || e != everything && r.Empty
		}
		s.reached(goal, e, st)
		return st
	}
	if s.beginsByName(goal) {
		s.name(&st, goal, e, isDue)
		s.reached(goal, e, st)
		return st
	}
	for _, name := range s.candidates(goal) {
		if !isDue(name) {
			st.partly = true
			continue
		}
		if s.quarantine != nil {
			if s.quarantine.Review(name, goal.Get(name)); s.quarantine.InDoubt(name) {
				continue
			}
		}
		s.compare(&st, goal, name, e)
	}
	s.conclude()
	s.reached(goal, e, st)
	return st
}

// beginsByName reports whether a client that has nothing asks by name for a large part of the set:
// then iterating over the set is faster than looking up each name.
func (s *subscription) beginsByName(goal *served.Set) bool {
	return !s.wildcard && s.have.Len() == 0 && s.quarantine == nil && s.retained == nil && len(s.repeated) == 0 && !s.belongs.reviews() &&
		len(s.asked) == len(s.more) && len(s.asked) > goal.Len()/8
}

// name adds what to send to a client that has nothing and asks by name.
func (s *subscription) name(st *step, goal *served.Set, e extent, isDue func(name string) bool) {
	missing := len(s.asked)
	st.changed, st.begins = make([]*served.Resource, 0, min(missing, goal.Len())), true
	for r := range goal.All() {
		if !s.asked[r.Name] {
			continue
		}
		missing--
		if !isDue(r.Name) {
			st.partly = true
			continue
		}
		st.changed = append(st.changed, r)
		st.grows++
		st.held = st.held || e != everything && r.Empty
	}
	if missing == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.asked)) {
		switch {
		case goal.Get(name) != nil:
		case isDue(name):
			st.absent, st.removed = append(st.absent, name), append(st.removed, name)
		default:
			st.partly = true
		}
	}
}

// compare adds what to send about one name.
func (s *subscription) compare(st *step, goal *served.Set, name string, e extent) {
	now, before, asked := s.given(goal, name, e), s.have.Get(name), s.asked[name]
	breaks := e == everything && s.retained.Get(name) == nil
	if goal.Get(name) == nil && before == nil && asked {
		st.absent = append(st.absent, name)
	}
	if e != everything && (now == nil && before != nil || goal.Get(name) != nil && goal.Get(name).Empty) {
		st.held = true
	}
	switch {
	case now == nil && (before != nil && breaks || before == nil && asked):
		st.removed = append(st.removed, name)
		if before != nil {
			st.grows--
		}
	case now != nil && before == nil:
		st.changed, st.fresh = append(st.changed, now), append(st.fresh, now.Refs...)
		st.grows++
	case now != nil && before != nil && before.Version != now.Version && (breaks || !now.Empty):
		st.change(before, now)
	}
}

// due returns a function that reports whether a resource may be updated on the client. It is
// fastest in the order of names.
func (s *subscription) due() func(name string) bool {
	if !s.outlives {
		return s.belongs.due()
	}
	hasOwned := hasOwned(s.target)
	return func(name string) bool { return s.have.Get(name) == nil || hasOwned(name) }
}

// given returns what the client should have of a name: the goal's resource, with two exceptions.
// One that became empty is repeated as it was until removals are allowed, and of one that it
// refuses the client keeps what it has.
func (s *subscription) given(goal *served.Set, name string, e extent) *served.Resource {
	r, before := s.standIn(goal.Get(name)), s.repeated[name]
	if r != nil && r.Empty && (e != everything || s.retained.Get(name) != nil) && before != nil && before.Body != nil {
		return before
	}
	return r
}

// reached records that a step towards a goal was sent: what the client now has, and from which set
// the next step is computed.
func (s *subscription) reached(goal *served.Set, e extent, st step) {
	if e == additions && !st.held {
		e = everything // nothing was held back
	}
	// If the client holds the whole set, share it instead of copying.
	whole := e == everything && s.quarantine == nil && s.retained == nil
	if s.belongs == nil {
		whole = whole && s.have.Len()+st.grows == goal.Len()
	} else {
		whole = whole && s.wildcard && !st.partly && s.have == s.base.Unlogged()
	}
	s.unanswered = false
	s.asked, s.repeated = nil, nil
	if s.belongs.reviews() {
		clear(s.belongs.reviewed)
		s.base = nil // reset below if everything was sent
	}
	s.goal, s.reach = goal, e
	if e == everything {
		s.base = goal
		if s.outlives && st.partly {
			s.base = nil // compare everything next time: what was left out may become due
		}
	}
	if !whole {
		s.change(st.changed, st.removed)
		whole = s.belongs != nil && s.quarantine == nil && s.retained == nil && s.have.Like(goal)
		st.changed, st.removed = nil, nil
	}
	if whole {
		s.become(goal.Unlogged(), st.changed, st.removed)
	}
	s.nameHave()
}

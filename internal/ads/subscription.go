package ads

import (
	"maps"
	"slices"
	"strconv"
)

// subscription is what one stream wants, has, and is still to be told of one type. There may be a thousand clients of thirty types each:
// what needs a byte is at the end.
type subscription struct {
	typeURL   string // as the client wrote it
	canonical string
	lane      *lane
	// target is the newest set that the client is being brought to.
	target *Set
	// withheld says that nothing is known of the type for now, and so nothing is sent.
	withheld bool

	names map[string]bool // what the client wants by name

	// have is what the client has once it has applied what was sent.
	have *Set
	// base is the set that the client was last brought to completely; nil when have must be compared with the whole of the next.
	base *Set
	// goal is the set that the client was last brought towards, and reach is how far.
	goal *Set

	// asked asks for a response about these names.
	asked map[string]bool
	// repeated are those of the asked names that the client has already, as it has them.
	repeated map[string]*Resource

	pending  string // the nonce of the last part of the response that the client has not answered
	oldest   uint64 // the nonce of its first part
	revision string // the revision of that response
	largest  int    // the size of its largest part

	reach       extent
	wildcard    bool
	explicit    bool // it has named something, from when on naming nothing no longer means everything
	unanswered  bool // it asks for a response even if there is nothing to say
	refused     bool // the client refused the last response that it answered, or a part of it
	partRefused bool // the client refused a part of the response that is pending
}

func newSubscription(typeURL, canonical string) *subscription {
	if typeURL == canonical {
		typeURL = canonical // and not a copy of it for each stream
	}
	return &subscription{typeURL: typeURL, canonical: canonical, unanswered: true}
}

// isPart tells whether a nonce is of the response that the client has not answered, before its last part.
func (s *subscription) isPart(nonce string) bool {
	last, _ := strconv.ParseUint(s.pending, 10, 64)
	n, err := strconv.ParseUint(nonce, 10, 64)
	return err == nil && n >= s.oldest && n < last
}

func (s *subscription) isRefused() bool { return s.refused }

// aim makes a snapshot the one that the client is being brought to.
func (s *subscription) aim(at *Snapshot) {
	s.target, s.withheld = at.Sets[s.canonical], at.Withheld[s.canonical]
}

// begin takes over what a client still has from an earlier stream.
func (s *subscription) begin(held map[string]string) {
	stubs := make([]*Resource, 0, len(held))
	for name, version := range held {
		stubs = append(stubs, &Resource{Name: name, Version: version})
	}
	s.have = unlogged(nil).With(stubs, nil)
}

// want adds names. A name that the client already has is sent again, as the protocol demands, unless its version came with
// the first request.
func (s *subscription) want(names []string, again bool) {
	s.explicit = s.explicit || len(names) > 0
	for _, n := range names {
		if n == "*" {
			s.wildcard = true
			s.reconsider()
			continue
		}
		add(&s.names, n, true)
		if again || s.have.Get(n) == nil {
			s.ask(n)
		}
	}
}

// ask has a name answered, whether the client has it or not.
func (s *subscription) ask(name string) {
	add(&s.asked, name, true)
	s.have = s.have.With(nil, []string{name})
}

// repeat has a name sent once more, if the client has it.
func (s *subscription) repeat(name string) {
	if r := s.have.Get(name); r != nil {
		add(&s.repeated, name, r)
		s.ask(name)
	}
}

// drop removes names. The client forgets them by itself, but for those that the wildcard still covers.
func (s *subscription) drop(names []string) {
	for _, n := range names {
		if n == "*" {
			s.wildcard = false
			s.have = s.named()
			s.reconsider()
			continue
		}
		delete(s.names, n)
		delete(s.asked, n)
		delete(s.repeated, n)
	}
	if !s.wildcard {
		s.have = s.have.With(nil, names)
	}
}

// confirm has the names answered that a client unsubscribed from while the wildcard still covers them: it cannot tell by
// itself whether it is to keep them.
func (s *subscription) confirm(names []string) {
	for _, n := range names {
		if s.wildcard && n != "*" {
			s.ask(n)
		}
	}
}

// named is the part of what the client has that it asked for by name.
func (s *subscription) named() *Set {
	var kept []*Resource
	for n := range s.names {
		if r := s.have.Get(n); r != nil {
			kept = append(kept, r)
		}
	}
	return unlogged(nil).With(kept, nil)
}

// replace makes the names all that the client wants, and returns those that it wants no more.
func (s *subscription) replace(names []string) (gone []string) {
	if len(names) == 0 && !s.explicit {
		return nil
	}
	wanted := make(map[string]bool, len(names))
	var fresh []string
	for _, n := range names {
		wanted[n] = true
		if n == "*" && !s.wildcard || n != "*" && !s.names[n] {
			fresh = append(fresh, n)
		}
	}
	for n := range s.names {
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

// restart forgets what the client has, so that everything is sent again.
func (s *subscription) restart() {
	s.have, s.unanswered, s.pending = unlogged(nil), true, ""
	s.reconsider()
	clear(s.repeated)
	for n := range s.names {
		add(&s.asked, n, true)
	}
}

// add makes a map when there is something for it: most subscriptions are to everything, and need none.
func add[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = value
}

// reconsider has everything compared that the client has and wants.
func (s *subscription) reconsider() { s.base, s.goal, s.reach = nil, nil, nothing }

// settled tells whether nothing is left to send on the way to the target, as far as may be sent now.
func (s *subscription) settled(e extent) bool {
	return e == nothing || s.withheld || !s.unanswered && len(s.asked) == 0 && s.goal == s.target && s.reach >= e
}

// step is what has to be sent to a client.
type step struct {
	changed []*Resource
	removed []string
	// fresh are what the client will ask for because of what changed, again what it waits to be sent once more.
	fresh, again []Ref
	// absent are names that were asked for and that there is nothing of.
	absent []string
}

func (st *step) empty() bool { return len(st.changed) == 0 && len(st.removed) == 0 }

// advance works out what has to be sent to bring the client towards a goal, and takes it as sent.
func (s *subscription) advance(goal *Set, e extent) step {
	var st step
	if s.wildcard && s.have.Len() == 0 && len(s.asked) == 0 { // there is nothing to compare with
		st.changed = make([]*Resource, 0, goal.Len())
		for r := range goal.All() {
			st.changed, st.fresh = append(st.changed, r), append(st.fresh, r.Refs...)
		}
		s.reached(goal, e, st)
		return st
	}
	for _, name := range s.candidates(goal) {
		now, before := s.due(goal, name, e), s.have.Get(name)
		if now == nil && before == nil && s.asked[name] {
			st.absent = append(st.absent, name)
		}
		switch {
		case now == nil && (before != nil && e == everything || before == nil && s.asked[name]):
			st.removed = append(st.removed, name)
		case now != nil && before == nil:
			st.changed, st.fresh = append(st.changed, now), append(st.fresh, now.Refs...)
		case now != nil && before.Version != now.Version && (e == everything || !now.Empty):
			st.change(before, now)
		}
	}
	s.reached(goal, e, st)
	return st
}

// due is what a client is to have of a name: what the goal says, but what is left empty is repeated as it was until it may break.
func (s *subscription) due(goal *Set, name string, e extent) *Resource {
	r, before := goal.Get(name), s.repeated[name]
	if r != nil && r.Empty && e != everything && before != nil && before.Body != nil {
		return before
	}
	return r
}

// change adds a resource that the client has at another version.
func (st *step) change(before, now *Resource) {
	st.changed = append(st.changed, now)
	for _, ref := range now.Refs {
		if before.Body == nil || slices.Contains(before.Refs, ref) { // without a body it is known by its version alone
			st.again = append(st.again, ref)
		} else {
			st.fresh = append(st.fresh, ref)
		}
	}
}

func (s *subscription) reached(goal *Set, e extent, st step) {
	s.unanswered = false
	clear(s.asked)
	clear(s.repeated)
	s.goal, s.reach = goal, e
	if e == everything {
		s.base = goal
	}
	if e == everything && s.wildcard {
		s.have = unlogged(goal)
	} else {
		s.have = s.have.With(st.changed, st.removed)
	}
}

// candidates lists, in order and once each, the names whose resource may differ between the client and a goal.
func (s *subscription) candidates(goal *Set) []string {
	names, exact := goal.changedSince(s.base)
	switch {
	case exact && !s.wildcard:
		names = slices.DeleteFunc(names, func(n string) bool { return !s.names[n] })
	case exact:
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

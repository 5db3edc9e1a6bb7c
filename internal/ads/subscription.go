package ads

import (
	"iter"
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

	more map[string]bool // what the client asks for by name and, if namesHave, does not have

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

	belongs *belonging // nil if the resources of the type belong to no others
	owns    *holding   // nil if no others belong to them

	taken func() // gives the memory of requests back; nil if there are none that take any

	record record // what others are told, under a lock of the stream's

	isolation *isolation // nil while the client refuses nothing
	delivery  *delivery  // what is in the response that the client has not answered, for isolation
	// kept is what is not taken from the client while it refuses something that may make use of it.
	kept *Set

	pending  string // the nonce of the last part of the response that the client has not answered
	oldest   uint64 // the nonce of its first part
	revision string // the revision of that response
	news     *News  // that it tells
	largest  int    // how many bytes its largest part has

	reach       extent
	overtaken   uint8 // responses in a row that were not waited for
	wildcard    bool
	namesHave   bool // what the client has it asks for by name
	explicit    bool // it has named something, from when on naming nothing no longer means everything
	unanswered  bool // it asks for a response even if there is nothing to say
	astray      bool // it may have what it was not told last, until it accepts a response that says everything
	outlives    bool // what is left of something that is gone stays
	partRefused bool // the client refused a part of the response that is pending
	relist      bool // what the client refuses has changed since others were told of it
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
	s.makeRoom(names)
	for _, n := range names {
		switch has := n != "*" && s.have.Get(n) != nil; {
		case n == "*":
			s.spellOut()
			s.wildcard = true
			s.reconsider()
		case !has:
			if r := s.target.Get(n); r != nil {
				n = r.Name // and not a copy of it for each stream
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

// makeRoom is for a client that asks for a thousand names in its first request, as a thousand clients may at once: maps that grow leave
// as much behind as they become.
func (s *subscription) makeRoom(names []string) {
	if s.more == nil && s.asked == nil && s.have.Len() == 0 && len(names) > 1 {
		s.more, s.asked = make(map[string]bool, len(names)), make(map[string]bool, len(names))
	}
}

// ask has a name answered, whether the client has it or not.
func (s *subscription) ask(name string) {
	add(&s.asked, name, true)
	s.change(nil, []string{name})
}

// repeat has a name sent once more, if the client has it. What is known by its version alone, and is left empty, cannot be repeated as it was: it
// comes in its turn.
func (s *subscription) repeat(name string) {
	if r := s.have.Get(name); r != nil && !r.emptied(s.target.Get(name)) {
		add(&s.repeated, name, r)
		s.ask(name)
	}
}

// emptied tells whether a resource that is known by its version alone has become empty.
func (r *Resource) emptied(now *Resource) bool {
	return r.Body == nil && now != nil && now.Empty && now.Version != r.Version
}

// drop removes names. The client forgets them by itself, but for those that the wildcard still covers.
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
	s.dismiss()
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

// replace makes the names all that the client wants, and returns those that it wants no more.
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

// restart forgets what the client has, so that everything is sent again.
func (s *subscription) restart() {
	s.spellOut()
	s.have, s.unanswered, s.pending = unlogged(nil), true, ""
	s.relist = s.isolation != nil
	s.isolation, s.delivery = nil, nil
	s.reconsider()
	clear(s.repeated)
	for n := range s.more {
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
	return !s.regular(e) && (!s.untried(e) || s.isolation.paused())
}

// open tells whether anything may be sent at all.
func (s *subscription) open(e extent) bool {
	return e != nothing && !s.withheld && !s.belongs.ownerless()
}

// regular tells whether something is left to send that is not in doubt.
func (s *subscription) regular(e extent) bool {
	return s.open(e) && (s.unanswered || s.belongs.reviews() || len(s.asked) > 0 || s.goal != s.target || s.reach < e)
}

// step is what has to be sent to a client.
type step struct {
	changed []*Resource
	removed []string
	// fresh are what the client will ask for because of what changed, again what it waits to be sent once more.
	fresh, again []Ref
	// begins says that the client had nothing of what changed: then all that this refers to is fresh, and is not listed. Most clients come when no
	// plan is under way, for which nobody asks.
	begins bool
	// absent are names that were asked for and that there is nothing of.
	absent []string
	// held says that something would be sent if more were allowed.
	held bool
	// grows is by how much more the client has.
	grows int
	// before is what the client had, and repeated is what it needs again.
	before   *Set
	repeated map[string]*Resource
	// partly says that something was left as it is that is not due.
	partly bool
}

func (st *step) empty() bool { return len(st.changed) == 0 && len(st.removed) == 0 }

// advance works out what has to be sent to bring the client towards its target, and takes it as sent.
func (s *subscription) advance(e extent) step {
	var st step
	goal, isDue := s.target, s.due()
	if s.isolation != nil {
		s.isolation.tried = false
	}
	if s.wildcard && s.have.Len() == 0 && len(s.asked) == 0 && s.isolation == nil { // there is nothing to compare with
		st.changed, st.begins = make([]*Resource, 0, goal.Len()), true
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
		if s.review(goal, name); !s.isolation.doubted(name) {
			s.compare(&st, goal, name, e)
		}
	}
	s.reached(goal, e, st)
	return st
}

// beginsByName reports whether a client that has nothing yet asks by name for a good part of what there is: to go through all of it is less than to
// look for each name.
func (s *subscription) beginsByName(goal *Set) bool {
	return !s.wildcard && s.have.Len() == 0 && s.isolation == nil && s.kept == nil && len(s.repeated) == 0 && !s.belongs.reviews() &&
		len(s.asked) == len(s.more) && len(s.asked) > goal.Len()/8
}

// name adds what is to be sent about the names that a client asks for that has nothing yet.
func (s *subscription) name(st *step, goal *Set, e extent, isDue func(name string) bool) {
	missing := len(s.asked)
	st.changed, st.begins = make([]*Resource, 0, min(missing, goal.Len())), true
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

// compare adds what is to be sent about a name.
func (s *subscription) compare(st *step, goal *Set, name string, e extent) {
	now, before, asked := s.given(goal, name, e), s.have.Get(name), s.asked[name]
	breaks := e == everything && s.kept.Get(name) == nil
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

// due tells, quickest in the order of names, which resources the client is to be brought to.
func (s *subscription) due() func(name string) bool {
	if !s.outlives {
		return s.belongs.due()
	}
	standing := s.target.standing()
	return func(name string) bool { return s.have.Get(name) == nil || standing(name) }
}

// given is what a client is to have of a name: what the goal says, but what is left empty is repeated as it was until it may break, and of
// what the client refuses it is to have what it has.
func (s *subscription) given(goal *Set, name string, e extent) *Resource {
	r, before := s.standIn(goal.Get(name)), s.repeated[name]
	if r != nil && r.Empty && (e != everything || s.kept.Get(name) != nil) && before != nil && before.Body != nil {
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
	if e == additions && !st.held {
		e = everything // there is nothing else
	}
	// A client that has something of a set has it all, if it is as much: then it needs no copy of what it has.
	whole := e == everything && s.isolation == nil && s.kept == nil
	if s.belongs == nil {
		whole = whole && s.have.Len()+st.grows == goal.Len()
	} else {
		whole = whole && s.wildcard && !st.partly && s.have == unlogged(s.base)
	}
	s.unanswered = false
	s.asked, s.repeated = nil, nil
	if s.belongs.reviews() {
		clear(s.belongs.reviewed)
		s.base = nil // unless all of it is done with now
	}
	s.goal, s.reach = goal, e
	if e == everything {
		s.base = goal
		if s.outlives && st.partly {
			s.base = nil // what is left of something is compared when that comes back
		}
	}
	if !whole {
		s.change(st.changed, st.removed)
		whole = s.belongs != nil && s.isolation == nil && s.kept == nil && s.have.like(goal)
		st.changed, st.removed = nil, nil
	}
	if whole {
		s.become(unlogged(goal), st.changed, st.removed)
	}
	s.nameHave()
}

// candidates lists, once each, the names whose resource may differ between the client and a goal.
func (s *subscription) candidates(goal *Set) []string {
	names, exact := goal.changedSince(s.base)
	if !exact {
		return s.everyName(goal)
	}
	if !s.wildcard {
		names = slices.DeleteFunc(names, func(n string) bool { return !s.asksFor(n) })
	}
	names = slices.AppendSeq(names, s.special(goal))
	slices.Sort(names)
	return slices.Compact(names)
}

// everyName lists what the client asks for, and what it has.
func (s *subscription) everyName(goal *Set) []string {
	names := make([]string, 0, goal.Len())
	for r := range goal.All() {
		if s.wants(r.Name) || s.have.Get(r.Name) != nil || s.asked[r.Name] {
			names = append(names, r.Name)
		}
	}
	here := len(names)
	missing := func(name string) {
		if goal.Get(name) == nil {
			names = append(names, name)
		}
	}
	for r := range s.have.All() {
		missing(r.Name)
	}
	for name := range s.more {
		missing(name)
	}
	for name := range s.special(goal) {
		missing(name)
	}
	slices.Sort(names[here:])
	return append(names[:here], slices.Compact(names[here:])...)
}

// special goes through names that are to be looked at whatever has changed.
func (s *subscription) special(goal *Set) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range s.asked {
			if !yield(name) {
				return
			}
		}
		for _, name := range s.underReview(goal) {
			if !yield(name) {
				return
			}
		}
		if s.isolation == nil {
			return
		}
		for name := range s.isolation.refused { // which may be nowhere else
			if !yield(name) {
				return
			}
		}
	}
}

func namesOf(set *Set) []string {
	names := make([]string, 0, set.Len())
	for r := range set.All() {
		names = append(names, r.Name)
	}
	return names
}

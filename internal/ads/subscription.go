package ads

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// subscription is what one stream wants, has and must still be sent of one type. There may be a thousand
// clients with thirty types each, so small fields are at the end to save padding.
type subscription struct {
	typeURL   string // as the client wrote it
	canonical string
	typePlan  *typePlan
	// target is the newest set that is being sent.
	target *served.Set
	// withheld says that nothing is known of the type yet, so nothing is sent.
	withheld bool

	more map[string]bool // names that the client asks for; if namesHave, only those it does not have

	// have is what the client has once it has applied everything that was sent.
	have *served.Set
	// base is the last set that was sent completely; nil if the next one must be compared with all of have.
	base *served.Set
	// goal is the last set that was sent, and reach is how much of it.
	goal *served.Set

	// asked are names that need a response.
	asked map[string]bool
	// repeated are the asked resources that the client already has, in its version.
	repeated map[string]*served.Resource

	belongs *ownedState // nil if the type's resources have no owners
	owns    *ownerState // nil if the type owns no others

	memory func() // releases the memory of requests; nil if none is reserved

	record record // published state; guarded by Stream.status.mu

	quarantine *quarantine.Quarantine // nil while the client refuses nothing
	delivery   *delivery              // the unanswered response, for the quarantine
	// retained is what the client keeps while it refuses something that may use it.
	retained *served.Set

	pending  string       // the nonce of the unanswered response's last part, or ""
	oldest   uint64       // the nonce of its first part
	revision string       // the revision of that response
	news     *served.News // the change in that response
	largest  int          // the bytes of its largest part

	reach           extent
	overtaken       uint8 // consecutive responses that were overtaken
	wildcard        bool
	namesHave       bool // the client asks by name for everything it has
	explicit        bool // the client has sent names, so no names no longer means everything
	unanswered      bool // a response is due, even an empty one
	outOfSync       bool // the client may have other versions than `have`, until it accepts a complete response
	outlives        bool // Config.Outlive is true for the type
	partRefused     bool // the client refused a part of the response that is pending
	refusalsChanged bool // the refused resources have changed since they were published
	tried           bool // the last response was a try of the quarantine, so the next may be a regular one
}

func newSubscription(typeURL, canonical string) *subscription {
	if typeURL == canonical {
		typeURL = canonical // share the string instead of keeping a copy per stream
	}
	return &subscription{typeURL: typeURL, canonical: canonical, unanswered: true}
}

// isPart reports whether a nonce is of an earlier part of the unanswered response than the last.
func (s *subscription) isPart(nonce string) bool {
	last, _ := strconv.ParseUint(s.pending, 10, 64)
	n, err := strconv.ParseUint(nonce, 10, 64)
	return err == nil && n >= s.oldest && n < last
}

// aim sets the target.
func (s *subscription) aim(at *served.Snapshot) {
	s.target, s.withheld = at.Sets[s.canonical], at.Withheld[s.canonical]
}

// begin starts with what the client has from an earlier stream.
func (s *subscription) begin(held map[string]string) {
	stubs := make([]*served.Resource, 0, len(held))
	for name, version := range held {
		stubs = append(stubs, &served.Resource{Name: name, Version: version})
	}
	s.have = served.None.With(stubs, nil)
}

// want adds names. As the protocol demands, names that the client already has are sent again, unless their
// versions came with the first request.
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

// makeRoom allocates maps of the final size for a first request with many names: growing maps leave as much
// garbage as they end up with, and a thousand clients may come at once.
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

// repeat sends a resource again if the client has it. A resource known only by its version that has become
// empty cannot be repeated as it was; it is sent in its turn.
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

// drop removes names. The client forgets the resources by itself, except those that the wildcard still
// covers.
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

// confirm answers for names that a client unsubscribed from while the wildcard still covers them: it cannot
// know by itself whether to keep them.
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

// restart forgets what the client has, so that everything is sent again.
func (s *subscription) restart() {
	s.spellOut()
	s.have, s.unanswered, s.pending = served.None, true, ""
	s.refusalsChanged = s.refusalsChanged || s.quarantine != nil
	s.quarantine, s.delivery = nil, nil
	s.reconsider()
	clear(s.repeated)
	for n := range s.more {
		add(&s.asked, n, true)
	}
}

// add adds to a map, which it creates when needed: most subscriptions are wildcards and need none.
func add[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = value
}

// reconsider makes the next step compare everything that the client has and wants.
func (s *subscription) reconsider() { s.base, s.goal, s.reach = nil, nil, nothing }

// settled reports whether nothing is left to send at this extent.
func (s *subscription) settled(e extent) bool {
	return !s.regular(e) && !s.untried(e)
}

// open reports whether anything may be sent at all.
func (s *subscription) open(e extent) bool {
	return e != nothing && !s.withheld && !s.belongs.ownerless()
}

// regular reports whether something is left to send besides resources in doubt.
func (s *subscription) regular(e extent) bool {
	return s.open(e) && (s.unanswered || s.belongs.reviews() || len(s.asked) > 0 || s.goal != s.target || s.reach < e)
}

// step is what must be sent to a client.
type step struct {
	changed []*served.Resource
	removed []string
	// fresh are references that the client will ask for; again are references that must be sent to it once
	// more.
	fresh, again []served.Ref
	// begins says that the client had nothing of this type before. Then everything that the changed resources
	// refer to is fresh, and is not listed: most clients connect while no plan is under way, and nobody reads the list.
	begins bool
	// absent are requested names that do not exist.
	absent []string
	// held says that there would be more to send if the plan allowed it.
	held bool
	// grows is by how many resources the client's set grows.
	grows int
	// before is what the client had, and repeated is what it needs again.
	before   *served.Set
	repeated map[string]*served.Resource
	// partly says that something was left out because it is not due.
	partly bool
}

func (st *step) empty() bool { return len(st.changed) == 0 && len(st.removed) == 0 }

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

// beginsByName reports whether a client that has nothing asks by name for a large part of the set: then
// iterating over the set is faster than looking up each name.
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

// due returns a function that reports whether a resource may be updated on the client. It is fastest in the
// order of names.
func (s *subscription) due() func(name string) bool {
	if !s.outlives {
		return s.belongs.due()
	}
	hasOwned := hasOwned(s.target)
	return func(name string) bool { return s.have.Get(name) == nil || hasOwned(name) }
}

// given returns what the client should have of a name: the goal's resource, with two exceptions. One that
// became empty is repeated as it was until removals are allowed, and of one that it refuses the client keeps
// what it has.
func (s *subscription) given(goal *served.Set, name string, e extent) *served.Resource {
	r, before := s.standIn(goal.Get(name)), s.repeated[name]
	if r != nil && r.Empty && (e != everything || s.retained.Get(name) != nil) && before != nil && before.Body != nil {
		return before
	}
	return r
}

// change adds a resource that the client has in another version.
func (st *step) change(before, now *served.Resource) {
	st.changed = append(st.changed, now)
	for _, ref := range now.Refs {
		if before.Body == nil || slices.Contains(before.Refs, ref) { // without a body it is known by its version alone
			st.again = append(st.again, ref)
		} else {
			st.fresh = append(st.fresh, ref)
		}
	}
}

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

// candidates lists, without duplicates, the names whose resource may differ between the client and a goal.
func (s *subscription) candidates(goal *served.Set) []string {
	names, exact := goal.ChangedSince(s.base)
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

// everyName lists the names that the client asks for or has.
func (s *subscription) everyName(goal *served.Set) []string {
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

// special iterates over the names to compare whatever has changed.
func (s *subscription) special(goal *served.Set) iter.Seq[string] {
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
		for name, known := range s.quarantine.All() { // these may be in neither set
			if known.Refused != nil && !yield(name) {
				return
			}
		}
	}
}

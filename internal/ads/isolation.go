package ads

import (
	"slices"
	"strings"
	"time"
)

// isolation is what is known of the resources that a client refuses of one type, so that all others get to it.
//
// A client refuses a response, not a resource: it may have taken some of what was in it, or nothing. So each resource of a refused response
// is in doubt. The doubts are sent again in smaller responses, until each was accepted or was refused alone. What was refused alone is not
// sent again until it changes: the client has the version of it that it accepted last.
type isolation struct {
	doubts map[string]doubt
	// groups are the doubts that are to be tried, each group in a response of its own.
	groups [][]string
	// tried says that the last response was a group. The next may be something else, for a client that refuses a lot is not to be
	// behind with everything for long.
	tried bool

	refused  map[string]*refusal
	reprieve reprieve
	failures int       // refusals in a row
	until    time.Time // nothing is tried before that
}

// doubt is a resource that was in a refused response with others.
type doubt struct {
	had     *Resource // what the client had accepted of it before, if anything
	version string    // the only one that it was sent since; "" if there were others
	needed  bool      // the client needs it again
}

// refusal is a resource that was refused alone.
type refusal struct {
	version, reason string
	since           time.Time
	had             *Resource // what the client has of it, nil for nothing
	owed            bool      // it is to be sent what it has once more, for it needs that or may have taken something else meanwhile
}

// Refused is a resource that a client refuses. It has the version that it accepted last, if any, and everything else.
type Refused struct {
	Name, Version string
	Reason        string
	Since         time.Time // when it refused the first of the versions that it has refused one after the other
}

// removeAgain has removals repeated that were in a response with resources, because of which it was refused.
func (s *subscription) removeAgain(names []string, whole bool) {
	if len(names) == 0 {
		return
	}
	if whole {
		s.restate()
		return
	}
	var stubs []*Resource
	for _, name := range names {
		if s.wants(name) && s.have.Get(name) == nil {
			stubs = append(stubs, &Resource{Name: name})
		}
	}
	s.change(stubs, nil)
	s.reconsider()
}

// unsettle notes that the client may have taken a version that it has not answered for of what it refuses, or may refuse.
func (i *isolation) unsettle(r *Resource) {
	if i == nil {
		return
	}
	if d, is := i.doubts[r.Name]; is && d.version != r.Version {
		d.version = ""
		i.doubts[r.Name] = d
	}
	if f := i.refused[r.Name]; f != nil {
		f.owed = true
	}
}

// restate has everything said once more to a client that is told of everything each time. What it refuses meanwhile does not count.
func (s *subscription) restate() { s.unanswered, s.astray = true, true }

func (i *isolation) doubted(name string) bool {
	if i == nil {
		return false
	}
	_, is := i.doubts[name]
	return is
}

func (i *isolation) inDoubt() int {
	if i == nil {
		return 0
	}
	return len(i.doubts)
}

// refuses tells whether there is something that the client does not take, or may not take.
func (s *subscription) refuses() bool { return s.isolation != nil }

// had is what the client had accepted of a resource before it was sent another version.
func (s *subscription) had(name string, before *Set) *Resource {
	if f := s.isolation.refused[name]; f != nil {
		return f.had
	}
	if d, is := s.isolation.doubts[name]; is {
		return d.had
	}
	return before.Get(name)
}

// stillWanted are those of the accused that the client still asks for, once each whatever it has answered.
func (s *subscription) stillWanted(accused []*Resource) []*Resource {
	wanted := slices.DeleteFunc(slices.Clone(accused), func(r *Resource) bool { return !s.wants(r.Name) })
	slices.SortFunc(wanted, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(wanted)
}

// suspects tells whether none of the accused comes as a surprise.
func (s *subscription) suspects(accused []*Resource) bool {
	return s.isolation != nil && !slices.ContainsFunc(accused, func(r *Resource) bool {
		return s.isolation.refused[r.Name] == nil && !s.isolation.doubted(r.Name)
	})
}

// isolate begins, or goes on, to find out which of the accused the client refuses: whether it is known now, since there is only one.
func (s *subscription) isolate(accused []*Resource, d *delivery, reason string, whole bool) bool {
	if s.isolation == nil {
		s.isolation = &isolation{doubts: map[string]doubt{}, refused: map[string]*refusal{}}
	}
	i := s.isolation
	i.fail()
	names := make([]string, len(accused))
	for n, r := range accused {
		names[n] = r.Name
		s.doubt(r, s.had(r.Name, d.before), d.repeated[r.Name] != nil, whole)
	}
	if d.accusesOne() {
		s.condemn(accused[0], reason, whole)
		return true
	}
	i.accuses(reason)
	groups := [][]string{names}
	if len(names) > 1 { // one that is left, for the client has let go of the others, may be no worse than they
		groups = divided(names, reason)
	}
	i.groups = append(groups, i.groups...)
	return false
}

// doubt notes that it is not known what the client has of a resource.
func (s *subscription) doubt(r, had *Resource, needed, whole bool) {
	f := s.isolation.refused[r.Name]
	d := doubt{had, r.Version, needed || f != nil && f.owed}
	if before, is := s.isolation.doubts[r.Name]; is {
		d.needed = d.needed || before.needed
		if before.version != r.Version {
			d.version = ""
		}
	}
	s.isolation.doubts[r.Name] = d
	s.stateAs(r.Name, had, whole)
	if !whole {
		s.change([]*Resource{{Name: r.Name}}, nil)
	}
}

// stateAs notes what the client has of a resource that it refused: of whatever version, if nothing is known of it. For a client that is told of everything
// each time, that is nothing.
func (s *subscription) stateAs(name string, had *Resource, whole bool) *Resource {
	switch {
	case had == nil && whole:
		s.change(nil, []string{name})
		return nil
	case had == nil:
		had = &Resource{Name: name}
	}
	s.change([]*Resource{had}, nil)
	return had
}

// condemn notes that a resource was refused alone.
func (s *subscription) condemn(r *Resource, reason string, whole bool) {
	i := s.isolation
	d, had := i.doubts[r.Name], i.doubts[r.Name].had
	delete(i.doubts, r.Name)
	f := i.refused[r.Name]
	anew := f != nil && f.version != r.Version
	if f == nil {
		f = &refusal{since: time.Now()}
		i.refused[r.Name] = f
	}
	if had != nil && had.Version == r.Version { // it was repeated, and is taken no longer
		had = nil
	} else {
		f.version, f.reason = r.Version, longest(reason)
	}
	f.had = s.stateAs(r.Name, had, whole)
	s.hasten(r.Name, anew)
	s.relist = true
	other := d.version != r.Version // of which the client may have taken one
	switch f.owed = had != nil && had.Body != nil && !whole && (d.needed || other); {
	case f.owed:
		s.ask(r.Name)
	case whole && (s.astray || other):
		s.restate()
	}
}

// freeFailures is how many refusals in a row are nothing unusual: to find one among a million takes twenty.
const freeFailures = 20

const shortestPause, longestPause = 10 * time.Millisecond, 5 * time.Second

// fail makes a client that refuses one thing after the other wait longer and longer for the next.
func (i *isolation) fail() {
	i.failures++
	if over := i.failures - freeFailures; over > 0 {
		i.until = time.Now().Add(min(longestPause, shortestPause<<min(over, 20)))
	}
}

// absolve takes in what the client has accepted.
func (s *subscription) absolve(accepted []*Resource) {
	i := s.isolation
	if i == nil {
		return
	}
	i.failures, i.until = 0, time.Time{}
	for _, r := range accepted {
		f := i.refused[r.Name]
		has := f != nil && f.had != nil && f.had.Version == r.Version
		pardoned := f != nil && !has
		if has {
			f.owed = false
		}
		if pardoned {
			s.pardon(r.Name)
		}
		s.eases(r.Name, pardoned)
		delete(i.doubts, r.Name)
	}
	s.conclude()
}

func (s *subscription) pardon(name string) {
	delete(s.isolation.refused, name)
	s.relist = true
}

// conclude ends the isolation when there is nothing left of it.
func (s *subscription) conclude() {
	if i := s.isolation; len(i.doubts) == 0 && len(i.refused) == 0 {
		s.isolation = nil
	}
}

// dismiss forgets what the client no longer wants.
func (s *subscription) dismiss() {
	i := s.isolation
	if i == nil {
		return
	}
	unwanted := func(name string) bool { return !s.wants(name) }
	for name := range i.refused {
		if unwanted(name) {
			s.pardon(name)
		}
	}
	for name := range i.doubts {
		if unwanted(name) {
			delete(i.doubts, name)
		}
	}
	s.conclude()
}

// undoubt forgets doubts of what the client has forgotten itself.
func (s *subscription) undoubt(names []string) {
	if s.isolation == nil {
		return
	}
	for _, name := range names {
		delete(s.isolation.doubts, name)
	}
	s.conclude()
}

// untried tells whether there is a group that may be tried now.
func (s *subscription) untried(e extent) bool {
	return s.isolation != nil && len(s.isolation.groups) > 0 && s.open(e)
}

// paused tells until when nothing is tried; it is over for the zero time.
func (i *isolation) paused() bool { return !i.until.IsZero() && time.Now().Before(i.until) }

// try works out what has to be sent to try the next group, and takes it as sent. What has changed since it was refused is sent as it is now.
func (s *subscription) try(e extent, whole bool) step {
	var st step
	i, isDue := s.isolation, s.due()
	group := i.groups[0]
	i.groups, i.tried = i.groups[1:], true
	for _, name := range group {
		if !i.doubted(name) {
			continue // the client wants it no longer, or has forgotten it
		}
		now, had := s.target.Get(name), i.doubts[name].had
		switch {
		case now == nil || now.Empty && had != nil && e != everything || !isDue(name):
			delete(i.doubts, name) // it is gone meanwhile, or empty, and will be removed in its turn
			s.reconsider()
			if whole {
				s.restate()
			}
		case had == nil: // or the client took it when it refused the rest
			st.changed, st.fresh, st.again = append(st.changed, now), append(st.fresh, now.Refs...), append(st.again, now.Refs...)
		default:
			st.change(had, now)
		}
		delete(s.asked, name)
		delete(s.repeated, name)
	}
	s.change(st.changed, nil)
	if whole {
		st.again = append(st.again, s.takenBack(group)...)
	}
	if st.empty() {
		s.conclude()
	}
	return st
}

// takenBack are the references of doubts that are not in a group. A state of the world has them as they were, and if the client took what
// it was sent of them after all, that is a change.
func (s *subscription) takenBack(group []string) (again []Ref) {
	in := make(map[string]bool, len(group))
	for _, name := range group {
		in[name] = true
	}
	for name, d := range s.isolation.doubts {
		if d.had != nil && !in[name] {
			again = append(again, d.had.Refs...)
		}
	}
	return again
}

// review forgets a refusal of what is gone, or is again as the client has it.
func (s *subscription) review(goal *Set, name string) {
	i := s.isolation
	if i == nil {
		return
	}
	f := i.refused[name]
	if f == nil {
		return
	}
	if now := goal.Get(name); now == nil || f.had != nil && f.had.Version == now.Version {
		s.pardon(name)
		s.eases(name, true)
		s.conclude()
	}
}

// standIn is what the client is to have in the place of a resource that it refuses, or the resource itself. Who asks for a
// resource by name although it refuses it is sent it again, if there is nothing else to send.
func (s *subscription) standIn(r *Resource) *Resource {
	if s.isolation == nil || r == nil {
		return r
	}
	f := s.isolation.refused[r.Name]
	switch {
	case f == nil || f.version != r.Version:
		return r
	case f.had != nil && f.had.Body != nil:
		return f.had
	case s.asked[r.Name]:
		return r
	}
	return s.have.Get(r.Name)
}

// refusals lists what the client refuses, in the order of names.
func (s *subscription) refusals() []Refused {
	if s.isolation == nil || len(s.isolation.refused) == 0 {
		return nil
	}
	list := make([]Refused, 0, len(s.isolation.refused))
	for name, f := range s.isolation.refused {
		list = append(list, Refused{Name: name, Version: f.version, Reason: f.reason, Since: f.since})
	}
	slices.SortFunc(list, func(a, b Refused) int { return strings.Compare(a.Name, b.Name) })
	return list
}

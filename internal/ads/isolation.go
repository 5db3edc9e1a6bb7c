package ads

import (
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// isolation tracks which resources of one type a client refuses, so that all others reach it.
//
// A client refuses a response, not a resource, and may have applied all, some or nothing of it. So each
// resource of a refused response is in doubt. The stream sends the doubts again in smaller responses, until
// each was accepted or refused alone. It does not send a resource that was refused alone until that changes:
// the client keeps the version that it accepted last.
type isolation struct {
	doubts map[string]doubt
	// groups are the doubts to try, each group in its own response.
	groups [][]string
	// tried says that the last response was a group. The next may then be regular, so that a client that
	// refuses a lot does not fall behind with everything else.
	tried bool

	refused  map[string]*refusal
	retry    retry
	failures int       // consecutive refusals
	until    time.Time // the end of the backoff
}

// doubt is a resource that was refused together with others.
type doubt struct {
	had     *served.Resource // the version that the client accepted before, if any
	version string           // the only version sent since; "" if there were several
	needed  bool             // the client needs it again, even unchanged
}

// refusal is a resource that was refused alone.
type refusal struct {
	version, reason string
	since           time.Time
	had             *served.Resource // the version that the client has, nil for none
	owed            bool             // send `had` again: the client needs it, or may have applied another version
}

// Refused is a resource that a client refuses. The client keeps the version that it accepted last, if any,
// and receives everything else.
type Refused struct {
	Name, Version string
	Reason        string
	Since         time.Time // the first of its consecutive refusals
}

// removeAgain repeats the removals of a response that was refused because of its resources.
func (s *subscription) removeAgain(names []string, whole bool) {
	if len(names) == 0 {
		return
	}
	if whole {
		s.restate()
		return
	}
	var stubs []*served.Resource
	for _, name := range names {
		if s.wants(name) && s.have.Get(name) == nil {
			stubs = append(stubs, &served.Resource{Name: name})
		}
	}
	s.change(stubs, nil)
	s.reconsider()
}

// unsettle records that the client may have applied an unanswered version of a resource that is refused or in
// doubt.
func (i *isolation) unsettle(r *served.Resource) {
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

// restate sends everything again to a state-of-the-world client. What it has is uncertain until it accepts
// that.
func (s *subscription) restate() { s.unanswered, s.outOfSync = true, true }

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

// refuses reports whether the client refuses, or may refuse, some resource.
func (s *subscription) refuses() bool { return s.isolation != nil }

// had returns the version that the client had accepted of a resource before it was sent another.
func (s *subscription) had(name string, before *served.Set) *served.Resource {
	if f := s.isolation.refused[name]; f != nil {
		return f.had
	}
	if d, is := s.isolation.doubts[name]; is {
		return d.had
	}
	return before.Get(name)
}

// stillWanted returns the suspects that the client still asks for, without duplicates.
func (s *subscription) stillWanted(suspects []*served.Resource) []*served.Resource {
	wanted := slices.DeleteFunc(slices.Clone(suspects), func(r *served.Resource) bool { return !s.wants(r.Name) })
	slices.SortFunc(wanted, func(a, b *served.Resource) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(wanted)
}

// allSuspect reports whether all of these were refused or in doubt already.
func (s *subscription) allSuspect(suspects []*served.Resource) bool {
	return s.isolation != nil && !slices.ContainsFunc(suspects, func(r *served.Resource) bool {
		return s.isolation.refused[r.Name] == nil && !s.isolation.doubted(r.Name)
	})
}

// isolate narrows down which suspects the client refuses. It returns true if there is only one, which is then
// known to be refused.
func (s *subscription) isolate(suspects []*served.Resource, d *delivery, reason string, whole bool) bool {
	if s.isolation == nil {
		s.isolation = &isolation{doubts: map[string]doubt{}, refused: map[string]*refusal{}}
	}
	i := s.isolation
	i.fail()
	names := make([]string, len(suspects))
	for n, r := range suspects {
		names[n] = r.Name
		s.doubt(r, s.had(r.Name, d.before), d.repeated[r.Name] != nil, whole)
	}
	if d.singleSuspect() {
		s.markRefused(suspects[0], reason, whole)
		return true
	}
	i.noteReason(reason)
	groups := [][]string{names}
	if len(names) > 1 { // a single one left, because the client dropped the others, is not proven to be the cause
		groups = split(names, reason)
	}
	i.groups = append(groups, i.groups...)
	return false
}

// doubt records that it is unknown which version of a resource the client has.
func (s *subscription) doubt(r, had *served.Resource, needed, whole bool) {
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
		s.change([]*served.Resource{{Name: r.Name}}, nil)
	}
}

// stateAs sets what the client has of a resource that it refused. With had nil the version is unknown; for a
// state-of-the-world client that means it has nothing.
func (s *subscription) stateAs(name string, had *served.Resource, whole bool) *served.Resource {
	switch {
	case had == nil && whole:
		s.change(nil, []string{name})
		return nil
	case had == nil:
		had = &served.Resource{Name: name}
	}
	s.change([]*served.Resource{had}, nil)
	return had
}

// markRefused records that a resource was refused alone.
func (s *subscription) markRefused(r *served.Resource, reason string, whole bool) {
	i := s.isolation
	d, had := i.doubts[r.Name], i.doubts[r.Name].had
	delete(i.doubts, r.Name)
	f := i.refused[r.Name]
	anew := f != nil && f.version != r.Version
	if f == nil {
		f = &refusal{since: time.Now()}
		i.refused[r.Name] = f
	}
	if had != nil && had.Version == r.Version { // the client now refuses the version it had accepted
		had = nil
	} else {
		f.version, f.reason = r.Version, cutReason(reason)
	}
	f.had = s.stateAs(r.Name, had, whole)
	s.noteRefused(r.Name, anew)
	s.refusalsChanged = true
	other := d.version != r.Version // several versions were sent, and the client may have applied one
	switch f.owed = had != nil && had.Body != nil && !whole && (d.needed || other); {
	case f.owed:
		s.ask(r.Name)
	case whole && (s.outOfSync || other):
		s.restate()
	}
}

// freeFailures is how many consecutive refusals cause no backoff: finding one resource among a million takes
// twenty.
const freeFailures = 20

const minBackoff, maxBackoff = 10 * time.Millisecond, 5 * time.Second

// fail counts a refusal and lets the backoff grow.
func (i *isolation) fail() {
	i.failures++
	if over := i.failures - freeFailures; over > 0 {
		i.until = time.Now().Add(min(maxBackoff, minBackoff<<min(over, 20)))
	}
}

// markAccepted records what the client has accepted.
func (s *subscription) markAccepted(accepted []*served.Resource) {
	i := s.isolation
	if i == nil {
		return
	}
	i.failures, i.until = 0, time.Time{}
	for _, r := range accepted {
		f := i.refused[r.Name]
		has := f != nil && f.had != nil && f.had.Version == r.Version
		cleared := f != nil && !has
		if has {
			f.owed = false
		}
		if cleared {
			s.clearRefusal(r.Name)
		}
		s.noteAccepted(r.Name, cleared)
		delete(i.doubts, r.Name)
	}
	s.conclude()
}

func (s *subscription) clearRefusal(name string) {
	delete(s.isolation.refused, name)
	s.refusalsChanged = true
}

// conclude ends the isolation when no doubt and no refusal is left.
func (s *subscription) conclude() {
	if i := s.isolation; len(i.doubts) == 0 && len(i.refused) == 0 {
		s.isolation = nil
	}
}

// forgetUnwanted forgets refusals and doubts of what the client no longer wants.
func (s *subscription) forgetUnwanted() {
	i := s.isolation
	if i == nil {
		return
	}
	unwanted := func(name string) bool { return !s.wants(name) }
	for name := range i.refused {
		if unwanted(name) {
			s.clearRefusal(name)
		}
	}
	for name := range i.doubts {
		if unwanted(name) {
			delete(i.doubts, name)
		}
	}
	s.conclude()
}

// clearDoubts forgets doubts of what the client itself has forgotten.
func (s *subscription) clearDoubts(names []string) {
	if s.isolation == nil {
		return
	}
	for _, name := range names {
		delete(s.isolation.doubts, name)
	}
	s.conclude()
}

// untried reports whether there is a group to try.
func (s *subscription) untried(e extent) bool {
	return s.isolation != nil && len(s.isolation.groups) > 0 && s.open(e)
}

// paused reports whether the backoff is still running.
func (i *isolation) paused() bool { return !i.until.IsZero() && time.Now().Before(i.until) }

// try computes the step that sends the next group, and records it as sent. Resources that have changed since
// are sent as they are now.
func (s *subscription) try(e extent, whole bool) step {
	var st step
	i, isDue := s.isolation, s.due()
	group := i.groups[0]
	i.groups, i.tried = i.groups[1:], true
	for _, name := range group {
		if !i.doubted(name) {
			continue // the client has dropped or forgotten it
		}
		now, had := s.target.Get(name), i.doubts[name].had
		switch {
		case now == nil || now.Empty && had != nil && e != everything || !isDue(name):
			delete(i.doubts, name) // it was removed or emptied meanwhile, which a regular step sends
			s.reconsider()
			if whole {
				s.restate()
			}
		case had == nil: // the client has none, or applied it while it refused the rest: list the references as both
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

// takenBack returns the references of the doubts outside a group. A state-of-the-world response has their
// previous versions; if the client had applied the refused ones, that is a change.
func (s *subscription) takenBack(group []string) (again []served.Ref) {
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

// review clears the refusal of a resource that is gone, or that is again as the client has it.
func (s *subscription) review(goal *served.Set, name string) {
	i := s.isolation
	if i == nil {
		return
	}
	f := i.refused[name]
	if f == nil {
		return
	}
	if now := goal.Get(name); now == nil || f.had != nil && f.had.Version == now.Version {
		s.clearRefusal(name)
		s.noteAccepted(name, true)
		s.conclude()
	}
}

// standIn returns what the client should have in place of a resource that it refuses, or the resource itself.
// A client that asks for a refused resource by name is sent it again if there is nothing else to send.
func (s *subscription) standIn(r *served.Resource) *served.Resource {
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

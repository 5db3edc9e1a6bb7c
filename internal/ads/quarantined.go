package ads

import (
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Here a subscription speaks with its quarantine: it says what became of responses, and keeps
// account of what the client then has. Of a resource in doubt, a delta client is known to have
// something, in no version. A state-of-the-world client is sent everything each time, so it has
// what the next response says.

// resolve evaluates the answers to all parts of a response.
func (s *Stream) resolve(sub *subscription, d *delivery, reason string) {
	sub.delivery = nil
	suspects := sub.stillWanted(d.suspects)
	if len(suspects) > 0 {
		if !sub.knownSuspects(suspects) {
			s.retainFor(sub)
		}
		if len(d.remaining) > 0 {
			s.losesWhatRan()
		}
		sub.removeAgain(d.remaining, s.whole(sub))
		if sub.quarantine == nil {
			sub.quarantine = quarantine.New(sub.belongs != nil)
		}
	}
	if sub.quarantine == nil {
		return
	}
	v := quarantine.Verdict{Accepted: d.accepted(), Refused: d.refused(suspects, sub.sticks != ""), Reason: reason, Alone: len(suspects) > 0 && d.singleSuspect()}
	if len(d.remaining) == 0 {
		v.Removed = d.removed
	}
	freed := sub.frees(v)
	sub.judge(v, s.whole(sub))
	if freed {
		s.tryRefused(sub.sticks)
	}
	if v.Alone {
		s.cfg.Log.Warn("a client refuses a resource and keeps what it had of it; everything else goes on. Correct the resource",
			s.cfg.Called, s.node.GetId(), "type", sub.typeURL, "revision", sub.revision, "resource", suspects[0].Name, "version", suspects[0].Version, "reason", cutReason(reason))
	}
	s.releaseRetained()
}

// stillWanted returns the suspects that the client still asks for, without duplicates.
func (s *subscription) stillWanted(suspects []*served.Resource) []*served.Resource {
	wanted := slices.DeleteFunc(slices.Clone(suspects), func(r *served.Resource) bool { return !s.wants(r.Name) })
	slices.SortFunc(wanted, func(a, b *served.Resource) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(wanted)
}

// knownSuspects reports whether all of these were refused or in doubt already.
func (s *subscription) knownSuspects(suspects []*served.Resource) bool {
	return !slices.ContainsFunc(suspects, func(r *served.Resource) bool { return s.quarantine.Get(r.Name) == nil })
}

// refused describes refused resources to the quarantine. Some may stick.
func (d *delivery) refused(suspects []*served.Resource, sticks bool) []quarantine.Sent {
	sent := make([]quarantine.Sent, len(suspects))
	for i, r := range suspects {
		sent[i] = quarantine.Sent{Resource: r, Before: d.before.Get(r.Name), Needed: sticks || d.repeated[r.Name] != nil}
	}
	return sent
}

// judge passes a verdict on to the quarantine, and notes what the client has of what it refused.
func (s *subscription) judge(v quarantine.Verdict, whole bool) {
	kept := s.quarantine.Answered(v, time.Now())
	beliefs := make([]belief, len(v.Refused))
	for i, one := range v.Refused {
		beliefs[i].name = one.Name
		if known := s.quarantine.Get(one.Name); whole || !known.InDoubt {
			beliefs[i].has = known.Accepted
		}
	}
	s.believe(beliefs, whole)
	switch {
	case !v.Alone:
	case whole && (s.outOfSync || kept.Unsure):
		s.restate()
	case !whole && kept.Resource != nil && kept.Resource.Body != nil && (kept.Needed || kept.Unsure):
		s.ask(kept.Resource.Name)
	case !whole && kept.Resource == nil && s.sticks != "":
		s.reconsider() // so that it is removed
	}
	s.conclude()
}

// belief is what a client is believed to have of a resource: nil if that is unknown.
type belief struct {
	name string
	has  *served.Resource
}

// believe updates what the client has. Of something unknown, a state-of-the-world client has
// nothing.
func (s *subscription) believe(all []belief, whole bool) {
	var upserts []*served.Resource
	var removed []string
	for _, b := range all {
		switch {
		case b.has != nil:
			upserts = append(upserts, b.has)
		case whole:
			removed = append(removed, b.name)
		default:
			upserts = append(upserts, &served.Resource{Name: b.name})
		}
	}
	s.change(upserts, removed)
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
	var beliefs []belief
	for _, name := range names {
		if s.wants(name) && s.have.Get(name) == nil {
			beliefs = append(beliefs, belief{name: name})
		}
	}
	s.believe(beliefs, whole)
	s.reconsider()
}

// restate sends everything again to a state-of-the-world client. What it has is uncertain until it
// accepts that.
func (s *subscription) restate() { s.unanswered, s.outOfSync = true, true }

// conclude ends the quarantine when nothing is in doubt or refused.
func (s *subscription) conclude() {
	q := s.quarantine
	if q == nil {
		return
	}
	if q.Conclude() {
		s.quarantine = nil
	}
	s.refusalsChanged = q.Changed() || s.refusalsChanged
}

// forgetUnwanted forgets refusals and doubts of what the client no longer wants.
func (s *subscription) forgetUnwanted() {
	if s.quarantine != nil {
		s.quarantine.Forget(func(name string) bool { return !s.wants(name) })
		s.conclude()
	}
}

// clearDoubts forgets doubts of what the client itself has forgotten.
func (s *subscription) clearDoubts(names []string) {
	if s.quarantine == nil {
		return
	}
	for _, name := range names {
		s.quarantine.EndDoubt(name)
	}
	s.conclude()
}

// untried reports whether there are doubts to try.
func (s *subscription) untried(e extent) bool { return s.quarantine.Pending() && s.open(e) }

// try computes the step that sends what the quarantine wants to be tried next, and records it as
// sent. Resources that have changed since are sent as they are now.
func (s *subscription) try(e extent, whole bool) step {
	var st step
	q, isDue := s.quarantine, s.due()
	s.tried = true
	names := q.Next()
	for _, name := range names {
		now, had := s.target.Get(name), q.Get(name).Accepted
		switch {
		case now == nil || now.Empty && had != nil && e != everything || !isDue(name):
			q.EndDoubt(name) // it was removed or emptied meanwhile, which a regular step sends
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
		st.again = append(st.again, s.takenBack(names)...)
	}
	if st.empty() {
		s.conclude()
	}
	return st
}

// takenBack returns the references of the doubts that are not tried now. A state-of-the-world
// response has their previous versions; if the client had applied the refused ones, that is a
// change.
func (s *subscription) takenBack(tried []string) (again []served.Ref) {
	in := make(map[string]bool, len(tried))
	for _, name := range tried {
		in[name] = true
	}
	for name, known := range s.quarantine.All() {
		if known.InDoubt && known.Accepted != nil && !in[name] {
			again = append(again, known.Accepted.Refs...)
		}
	}
	return again
}

// standIn returns what the client should have in place of a resource that it refuses, or the
// resource itself. A client that asks for a refused resource by name is sent it again if there is
// nothing else to send.
func (s *subscription) standIn(r *served.Resource) *served.Resource {
	if s.quarantine == nil || r == nil {
		return r
	}
	switch kept, withheld := s.quarantine.Withholds(r); {
	case !withheld:
		return r
	case kept != nil && kept.Body != nil:
		return kept
	case s.sticks != "" && kept == nil:
		return nil
	case s.asked[r.Name]:
		return r
	}
	return s.have.Get(r.Name)
}

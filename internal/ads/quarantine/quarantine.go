// Package quarantine finds out which resources a client refuses, and keeps those from it.
//
// A client refuses a response, not a resource, and may have applied all, some or nothing of it. So
// everything in a refused response is in doubt. It is sent again in smaller responses, until each
// resource was accepted or was refused alone. What was refused alone is withheld until it changes:
// the client keeps the version that it accepted last.
//
// A Quarantine knows of no stream and no time. It is told what became of a response, and says what
// to send next, and what to withhold.
package quarantine

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

// Quarantine is what is known of the resources of one type that one client refuses, or may refuse.
type Quarantine struct {
	suspects map[string]*Suspect
	doubts   int // how many of them are in doubt
	// next are the resources in doubt, as they are to be sent: each list in a response of its own.
	next   [][]string
	owned  bool              // the type's resources have owners
	events map[string]events // by owner
	// changed says that what is refused has changed since the last call of Changed.
	changed bool
}

// Suspect is a resource that is in doubt or that was refused alone, or both: of what was refused, a
// newer version may be in doubt.
type Suspect struct {
	// Accepted is the version that the client accepted last; nil for none.
	Accepted *served.Resource
	InDoubt  bool
	// Refused is what was refused alone; nil for nothing.
	Refused *Refused

	sent string // the only version that was sent since it is in doubt; "" for several
	owed bool   // the client needs the accepted version again
}

// Refused is a resource that a client refuses. The client keeps the version that it accepted last,
// if any, and receives everything else.
type Refused struct {
	Name, Version string
	Reason        string
	Since         time.Time // the first of its consecutive refusals
}

// MaxReason bounds how much of a refusal's reason is kept, because a client may send any text.
const MaxReason = 1024

// New returns an empty quarantine. Resources that have owners may need each other: two of one owner
// may be refused one by one, and accepted together.
func New(owned bool) *Quarantine {
	return &Quarantine{suspects: map[string]*Suspect{}, owned: owned, events: map[string]events{}}
}

// Sent is a resource of a refused response.
type Sent struct {
	*served.Resource

	Before *served.Resource // what the client had of it; nil if nothing
	Needed bool             // the client needs it again, even if it did not change
}

// Verdict is what a client made of a response.
type Verdict struct {
	Accepted []*served.Resource
	Removed  []string // what it was told to remove, and has removed
	Refused  []Sent
	Alone    bool // there was nothing else in the response than the resource that is refused
	Reason   string
}

// Kept is what a client keeps of a resource that it refused alone.
type Kept struct {
	Resource *served.Resource // the version that it accepted last; nil for none
	Needed   bool             // it needs that version again
	Unsure   bool             // it was sent several others, and may have applied one of them
}

// Answered records what became of a response. If a resource was refused alone, it returns what the
// client keeps of it.
func (q *Quarantine) Answered(v Verdict, now time.Time) (kept Kept) {
	q.accept(v.Accepted)
	for _, name := range v.Removed {
		q.noteEased(name)
	}
	switch {
	case len(v.Refused) == 0:
	case v.Alone:
		return q.refuse(v.Refused[0], v.Reason, now)
	case q.triedTogether(v.Refused):
		q.withoutCause(v.Refused, terse.Kept(v.Reason, MaxReason))
	default:
		q.divide(v.Refused, v.Reason)
	}
	return Kept{}
}

// accept releases what a client accepted. If that is the version from before a refusal, the refusal
// stands.
func (q *Quarantine) accept(resources []*served.Resource) {
	for _, r := range resources {
		s := q.suspects[r.Name]
		if s == nil {
			q.noteAccepted(r.Name)
			continue
		}
		again := s.Refused != nil && s.Accepted != nil && s.Accepted.Version == r.Version
		if q.endDoubt(s); again {
			s.owed = false
			continue
		}
		q.noteEased(r.Name)
		q.release(r.Name)
	}
}

// divide puts what was refused together in doubt, to be sent again in smaller responses.
func (q *Quarantine) divide(refused []Sent, reason string) {
	names := make([]string, len(refused))
	for i, one := range refused {
		names[i] = one.Name
		q.doubt(one)
	}
	q.next = append(q.next, split(names, reason)...)
}

// refuse withholds what was refused alone.
func (q *Quarantine) refuse(one Sent, reason string, now time.Time) Kept {
	s := q.doubt(one)
	q.endDoubt(s)
	if s.Refused == nil || s.Refused.Version != one.Version {
		q.noteRefused(one.Name)
	}
	first, tookBefore := s.Refused == nil, s.Accepted != nil && s.Accepted.Version == one.Version
	if tookBefore {
		s.Accepted = nil
	}
	if first {
		s.Refused = &Refused{Name: one.Name, Since: now}
	}
	if first || !tookBefore { // else a newer version is withheld, and stays so
		s.Refused.Version, s.Refused.Reason = one.Version, terse.Kept(reason, MaxReason)
	}
	q.changed = true
	kept := Kept{Resource: s.Accepted, Needed: s.owed, Unsure: s.sent != one.Version}
	s.owed = s.known() && (kept.Needed || kept.Unsure)
	return kept
}

// known reports whether there is a version that the client accepted, and that can be sent again.
func (s *Suspect) known() bool { return s.Accepted != nil && s.Accepted.Body != nil }

// doubt records that it is unknown which version of a resource the client has.
func (q *Quarantine) doubt(one Sent) *Suspect {
	s := q.suspects[one.Name]
	if s == nil {
		s = &Suspect{Accepted: one.Before}
		q.suspects[one.Name] = s
	}
	switch {
	case !s.InDoubt:
		s.InDoubt, s.sent = true, one.Version
		q.doubts++
	case s.sent != one.Version:
		s.sent = ""
	}
	s.owed = s.owed || one.Needed
	return s
}

func (q *Quarantine) endDoubt(s *Suspect) {
	if s.InDoubt {
		s.InDoubt = false
		q.doubts--
	}
}

// release ends the quarantine of one resource.
func (q *Quarantine) release(name string) {
	s := q.suspects[name]
	q.endDoubt(s)
	q.changed = q.changed || s.Refused != nil
	delete(q.suspects, name)
}

// Overtaken says that a response was given up without an answer. The client may have applied it.
func (q *Quarantine) Overtaken(resources []*served.Resource) {
	var again []string
	for _, r := range resources {
		s := q.suspects[r.Name]
		if s == nil {
			continue
		}
		s.owed = s.owed || s.Refused != nil
		if s.InDoubt {
			again = append(again, r.Name)
			if s.sent != r.Version {
				s.sent = ""
			}
		}
	}
	if len(again) > 0 {
		q.next = slices.Insert(q.next, 0, again)
	}
}

// Review records what is served under a name now; nil if nothing. A refusal ends if its resource is
// gone, or is again as the client has it.
func (q *Quarantine) Review(name string, now *served.Resource) {
	s := q.suspects[name]
	if s == nil || s.Refused == nil || now != nil && (s.Accepted == nil || s.Accepted.Version != now.Version) {
		return
	}
	s.Refused, q.changed = nil, true
	if !s.InDoubt {
		delete(q.suspects, name)
	}
}

// EndDoubt ends the doubt about a resource that the client need not try: it is gone, or will be
// sent in another way.
func (q *Quarantine) EndDoubt(name string) {
	if s := q.suspects[name]; s != nil {
		if q.endDoubt(s); s.Refused == nil {
			delete(q.suspects, name)
		}
	}
}

// Forget forgets resources that the client does not want any more.
func (q *Quarantine) Forget(unwanted func(name string) bool) {
	for name := range q.suspects {
		if unwanted(name) {
			q.release(name)
		}
	}
}

// Conclude is called when everything known was recorded. It reports whether nothing is in doubt or
// refused any more.
func (q *Quarantine) Conclude() (over bool) {
	if q.doubts == 0 {
		q.next = nil // what is left of it is settled
		q.tryTogether()
	}
	return len(q.suspects) == 0
}

// Pending reports whether there is something to send next.
func (q *Quarantine) Pending() bool { return q != nil && len(q.next) > 0 }

// Next returns what is to be sent next, in a response of its own. It may turn out to be nothing.
func (q *Quarantine) Next() (names []string) {
	for len(names) == 0 && len(q.next) > 0 {
		names = slices.DeleteFunc(q.next[0], func(name string) bool { return !q.InDoubt(name) })
		q.next = q.next[1:]
	}
	return names
}

// Withholds reports whether a client refuses a resource in this version, and returns what it keeps
// of it, nil for nothing.
func (q *Quarantine) Withholds(r *served.Resource) (kept *served.Resource, withheld bool) {
	s := q.suspects[r.Name]
	if s == nil || s.Refused == nil || s.Refused.Version != r.Version {
		return nil, false
	}
	return s.Accepted, true
}

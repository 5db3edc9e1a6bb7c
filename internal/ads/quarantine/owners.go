package quarantine

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Resources of one owner can be in each other's way: when a domain moves from one virtual host to
// another, Envoy refuses the new one until the old one has dropped it, and of two that swap their
// domains it accepts both or none. So once nothing is in doubt, what is refused of an owner is
// tried again, in one response, if something has happened to that owner's resources. Such a
// response is taken as a whole, or not at all. If it is refused for a reason that some of them gave
// alone, these are the cause, and the others are tried without them.

// events are what has happened to an owner's resources. They are kept from when one of them was
// refused alone until one of them was accepted or removed after that, and what is refused was tried
// again.
type events struct {
	refused bool // something was refused alone since what is refused was tried together
	eased   bool // something was accepted or removed since then, and is in the way no more
}

func (q *Quarantine) noteRefused(name string) {
	if q.owned {
		q.events[served.OwnerOf(name)] = events{refused: true}
	}
}

func (q *Quarantine) noteEased(name string) {
	if q.owned {
		owner := served.OwnerOf(name)
		q.events[owner] = events{eased: true, refused: q.events[owner].refused}
	}
}

// noteAccepted notes that something was accepted that was neither in doubt nor refused. It counts
// once after a refusal, or what is refused would be tried with every change of another.
func (q *Quarantine) noteAccepted(name string) {
	if len(q.events) == 0 { // as mostly: then it costs nothing
		return
	}
	if _, waits := q.events[served.OwnerOf(name)]; waits {
		q.noteEased(name)
	}
}

// tryTogether has what is refused of each owner tried again if that is worth it: several may be
// accepted together, and one when another has gone out of its way.
func (q *Quarantine) tryTogether() {
	if len(q.events) == 0 {
		return
	}
	refused := map[string][]string{}
	for name, s := range q.suspects {
		if owner := served.OwnerOf(name); s.Refused != nil {
			refused[owner] = append(refused[owner], name)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(q.events)) {
		names := slices.Sorted(slices.Values(refused[owner]))
		switch e := q.events[owner]; {
		case len(names) == 0:
			delete(q.events, owner)
		case e.eased:
			delete(q.events, owner)
			q.tryAgain(names)
		case e.refused && len(names) > 1:
			q.events[owner] = events{}
			q.tryAgain(names)
		}
	}
}

// tryAgain puts in doubt what is refused.
func (q *Quarantine) tryAgain(names []string) {
	for _, name := range names {
		s := q.suspects[name]
		s.InDoubt, s.sent = true, s.Refused.Version
		q.doubts++
	}
	q.next = append(q.next, names)
}

// TryRefused has each resource tried again that was refused alone: what it was refused for may be
// over.
func (q *Quarantine) TryRefused() {
	for _, r := range q.Refused() {
		if !q.InDoubt(r.Name) {
			q.tryAgain([]string{r.Name})
		}
	}
}

// triedTogether reports whether a response had only what was refused before, in the same versions.
func (q *Quarantine) triedTogether(sent []Sent) bool {
	return q.owned && !slices.ContainsFunc(sent, func(one Sent) bool {
		s := q.suspects[one.Name]
		return s == nil || s.Refused == nil || s.Refused.Version != one.Version
	})
}

// withoutCause tries the rest of what was refused together, without those that gave the same reason
// alone.
func (q *Quarantine) withoutCause(sent []Sent, reason string) {
	var rest []string
	for _, one := range sent {
		s := q.suspects[one.Name]
		if q.endDoubt(s); s.Refused.Reason != reason {
			rest = append(rest, one.Name)
		}
	}
	if len(rest) > 0 && len(rest) < len(sent) {
		q.tryAgain(rest)
	}
}

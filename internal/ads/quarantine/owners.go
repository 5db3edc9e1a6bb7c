package quarantine

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Resources of one owner can be in each other's way: when a domain moves from one virtual host to another,
// Envoy refuses the new one until the old one has dropped it, and of two that swap their domains it accepts
// both or none. So once nothing is in doubt, what is refused of an owner is tried again, in one response, if
// something has happened to that owner's resources. Such a response is taken as a whole, or not at all. If it
// is refused for a reason that some of them gave alone, these are the cause, and the others are tried without
// them.

// events are what has happened to an owner's resources since they were tried together last.
type events struct {
	refused bool // something was refused alone
	eased   bool // since then something was accepted, or removed, and is in the way no more
}

func (q *Quarantine) noteRefused(name string) {
	if q.owned {
		q.events[served.OwnerOf(name)] = events{refused: true}
	}
}

func (q *Quarantine) noteEased(name string) {
	if q.owned {
		e := q.events[served.OwnerOf(name)]
		e.eased = true
		q.events[served.OwnerOf(name)] = e
	}
}

// tryTogether has what is refused of each owner tried again if that is worth it: several may be accepted
// together, and one when another has gone out of its way.
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
		if e, names := q.events[owner], refused[owner]; e.eased && len(names) > 0 || e.refused && len(names) > 1 {
			slices.Sort(names)
			q.tryAgain(names)
		}
	}
	clear(q.events)
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

// triedTogether reports whether a response had only what was refused before, in the same versions.
func (q *Quarantine) triedTogether(sent []Sent) bool {
	return q.owned && !slices.ContainsFunc(sent, func(one Sent) bool {
		s := q.suspects[one.Name]
		return s == nil || s.Refused == nil || s.Refused.Version != one.Version
	})
}

// withoutCause tries the rest of what was refused together, without those that gave the same reason alone.
func (q *Quarantine) withoutCause(sent []Sent, reason string) {
	var rest []string
	for _, one := range sent {
		s := q.suspects[one.Name]
		if q.settle(s); s.Refused.Reason != reason {
			rest = append(rest, one.Name)
		}
	}
	if len(rest) > 0 && len(rest) < len(sent) {
		q.tryAgain(rest)
	}
}

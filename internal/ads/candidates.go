package ads

import (
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// candidates lists, without duplicates, the names whose resource may differ between the client and
// a goal.
func (s *subscription) candidates(goal *served.Set) []string {
	names, exact := goal.ChangedSince(s.base)
	if !exact {
		return s.everyName(goal)
	}
	if !s.wildcard {
		names = slices.DeleteFunc(names, func(n string) bool { return !s.asksFor(n) })
	}
	names = s.appendSpecial(names, goal)
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
	for _, name := range s.appendSpecial(nil, goal) {
		missing(name)
	}
	slices.Sort(names[here:])
	return append(names[:here], slices.Compact(names[here:])...)
}

// appendSpecial appends the names to compare whatever has changed.
func (s *subscription) appendSpecial(names []string, goal *served.Set) []string {
	for name := range s.asked {
		names = append(names, name)
	}
	names = append(names, s.underReview(goal)...)
	if s.quarantine == nil {
		return names
	}
	for name, known := range s.quarantine.All() { // these may be in neither set
		if known.Refused != nil {
			names = append(names, name)
		}
	}
	return names
}

package quarantine

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Get returns what is known of a resource; nil if it is neither in doubt nor refused.
func (q *Quarantine) Get(name string) *Suspect {
	if q == nil {
		return nil
	}
	return q.suspects[name]
}

// All iterates over everything that is in doubt or refused, in no order.
func (q *Quarantine) All() iter.Seq2[string, *Suspect] {
	if q == nil {
		return func(func(string, *Suspect) bool) {}
	}
	return maps.All(q.suspects)
}

// InDoubt reports whether a resource is in doubt.
func (q *Quarantine) InDoubt(name string) bool {
	s := q.Get(name)
	return s != nil && s.InDoubt
}

// Doubts returns how many resources are in doubt.
func (q *Quarantine) Doubts() int {
	if q == nil {
		return 0
	}
	return q.doubts
}

// Changed reports whether what is refused has changed since it was called last.
func (q *Quarantine) Changed() bool {
	changed := q.changed
	q.changed = false
	return changed
}

// Refused lists what is refused, in the order of names.
func (q *Quarantine) Refused() []Refused {
	var list []Refused
	for _, s := range q.All() {
		if s.Refused != nil {
			list = append(list, *s.Refused)
		}
	}
	slices.SortFunc(list, func(a, b Refused) int { return strings.Compare(a.Name, b.Name) })
	return list
}

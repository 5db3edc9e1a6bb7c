package configstore

import (
	"cmp"
	"slices"
	"sort"

	"github.com/pgmesh/pgmesh/kinds"
)

// set holds the resources of one kind in two sorted slices. A batch makes a new set by merging its few changes into a
// copy of the slices: one memory move of 8 bytes a resource, where a copied hash map
// would rehash every key and a persistent tree would cost every reader a pointer chase. A nil set is empty.
type set struct {
	byAge  []*kinds.Resource
	byName []*kinds.Resource
}

func (s *set) ordered() []*kinds.Resource {
	if s == nil {
		return nil
	}
	return s.byAge
}

func (s *set) named() []*kinds.Resource {
	if s == nil {
		return nil
	}
	return s.byName
}

func (s *set) get(key kinds.Key) *kinds.Resource {
	if s == nil {
		return nil
	}
	i, found := sort.Find(len(s.byName), func(i int) int { return compareName(key, s.byName[i].Key()) })
	if !found {
		return nil
	}
	return s.byName[i]
}

// edit is one resource that enters or leaves a set.
type edit struct {
	resource *kinds.Resource
	leaves   bool
}

// with returns the set after the changes; a nil resource removes its key.
func (s *set) with(changes map[kinds.Key]*kinds.Resource) *set {
	var edits []edit
	for key, r := range changes {
		if old := s.get(key); old != nil {
			edits = append(edits, edit{resource: old, leaves: true})
		}
		if r != nil {
			edits = append(edits, edit{resource: r})
		}
	}
	if s == nil {
		s = &set{}
	}
	return &set{
		byAge:  merge(s.byAge, edits, compareAge),
		byName: merge(s.byName, edits, func(a, b *kinds.Resource) int { return compareName(a.Key(), b.Key()) }),
	}
}

// merge copies old with the edits made, run by run: it looks only at the places that change.
func merge(old []*kinds.Resource, edits []edit, order func(a, b *kinds.Resource) int) []*kinds.Resource {
	edits = slices.SortedFunc(slices.Values(edits), func(a, b edit) int { return order(a.resource, b.resource) })
	out := make([]*kinds.Resource, 0, len(old)+len(edits))
	for _, e := range edits {
		run, _ := slices.BinarySearchFunc(old, e.resource, order)
		out = append(out, old[:run]...)
		old = old[run:]
		if e.leaves {
			old = old[1:]
		} else {
			out = append(out, e.resource)
		}
	}
	return append(out, old...)
}

func compareAge(a, b *kinds.Resource) int {
	if c := a.CreateTime.Compare(b.CreateTime); c != 0 {
		return c
	}
	return compareName(a.Key(), b.Key())
}

func compareName(a, b kinds.Key) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

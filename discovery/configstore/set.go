package configstore

import (
	"cmp"
	"slices"
	"sort"

	"github.com/pgmesh/pgmesh/kinds"
)

// set holds the resources of one kind in two sorted slices. A batch makes a new set by merging its
// few changes into a copy of the slices: one memory move of 8 bytes a resource, where a copied hash
// map would rehash every key and a persistent tree would cost every reader a pointer chase. A nil
// set is empty.
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

// move is a resource that enters or leaves a set.
type move struct {
	resource *kinds.Resource
	leaves   bool
}

// with returns the set after the edits.
func (s *set) with(edits []Edit) *set {
	moves := make([]move, 0, 2*len(edits))
	for _, e := range edits {
		if e.Before != nil {
			moves = append(moves, move{resource: e.Before, leaves: true})
		}
		if e.After != nil {
			moves = append(moves, move{resource: e.After})
		}
	}
	if s == nil {
		s = &set{}
	}
	return &set{
		byAge:  merge(s.byAge, moves, kinds.CompareAge),
		byName: merge(s.byName, moves, func(a, b *kinds.Resource) int { return compareName(a.Key(), b.Key()) }),
	}
}

// merge copies old with the moves made, run by run. It searches only for the places that change.
func merge(old []*kinds.Resource, moves []move, order func(a, b *kinds.Resource) int) []*kinds.Resource {
	moves = slices.SortedFunc(slices.Values(moves), func(a, b move) int { return order(a.resource, b.resource) })
	out := make([]*kinds.Resource, 0, len(old)+len(moves))
	for _, m := range moves {
		run, _ := slices.BinarySearchFunc(old, m.resource, order)
		out = append(out, old[:run]...)
		old = old[run:]
		if m.leaves {
			old = old[1:]
		} else {
			out = append(out, m.resource)
		}
	}
	return append(out, old...)
}

func compareName(a, b kinds.Key) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

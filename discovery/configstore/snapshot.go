package configstore

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// Snapshot is the whole configuration at one revision. It never changes, and neither do the
// resources in it.
type Snapshot struct {
	// Revision is that of the last batch in the snapshot.
	Revision int64

	sets map[*kinds.Kind]*set
}

// Of yields the resources of a kind in the order that decides between rivals: the oldest first, and
// of equal age by name, then namespace. Istio sorts the same way, so the same resource wins.
func (s *Snapshot) Of(kind *kinds.Kind) iter.Seq[*kinds.Resource] {
	return func(yield func(*kinds.Resource) bool) {
		for _, r := range s.sets[kind].ordered() {
			if !yield(r) {
				return
			}
		}
	}
}

// Get returns the resource with this key, or nil.
func (s *Snapshot) Get(key kinds.Key) *kinds.Resource { return s.sets[key.Kind].get(key) }

// Len counts the resources of a kind.
func (s *Snapshot) Len(kind *kinds.Kind) int { return len(s.sets[kind].ordered()) }

// Size is how many resources there are.
func (s *Snapshot) Size() (n int) {
	for kind := range s.sets {
		n += s.Len(kind)
	}
	return n
}

func (s *Snapshot) step(batch kinds.Batch) Step {
	next := &Snapshot{Revision: batch.Revision, sets: maps.Clone(s.sets)}
	edits := s.changed(batch.Changes)
	for kind, ofKind := range edits {
		next.sets[kind] = s.sets[kind].with(ofKind)
	}
	return Step{Snapshot: next, before: s, edits: edits}
}

// changed returns the edits that changes amount to, by kind. The last change of a key counts, and a
// change that leaves the resource as it is, is no edit.
func (s *Snapshot) changed(changes []kinds.Change) map[*kinds.Kind][]Edit {
	last := make(map[kinds.Key]int, len(changes))
	for i, c := range changes {
		last[c.Key] = i
	}
	out := map[*kinds.Kind][]Edit{}
	for i, c := range changes {
		if before := s.Get(c.Key); last[c.Key] == i && before != c.Resource {
			out[c.Key.Kind] = append(out[c.Key.Kind], Edit{Before: before, After: c.Resource})
		}
	}
	for _, edits := range out {
		slices.SortFunc(edits, func(a, b Edit) int { return compareName(a.key(), b.key()) })
	}
	return out
}

func (e Edit) key() kinds.Key { return cmp.Or(e.After, e.Before).Key() }

package configstore

import (
	"iter"
	"maps"

	"github.com/pgmesh/pgmesh/kinds"
)

// Snapshot is the whole configuration at one revision. It never changes, and neither do the resources in it.
type Snapshot struct {
	// Revision is that of the last batch in the snapshot.
	Revision int64

	sets map[*kinds.Kind]*set
}

// Of iterates over the resources of a kind in the order that decides between rivals: the older first, and of equal age
// by name, then namespace. Istio orders the same way, so the same resource wins.
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

// Same reports whether a kind has had no change between two snapshots of one store. It compares identities, so it
// costs nothing, and it may say false of sets that happen to hold equal resources.
func (s *Snapshot) Same(other *Snapshot, kind *kinds.Kind) bool {
	return other != nil && s.sets[kind] == other.sets[kind]
}

func (s *Snapshot) with(batch Batch) *Snapshot {
	next := &Snapshot{Revision: batch.Revision, sets: maps.Clone(s.sets)}
	for kind, changes := range byKind(batch.Changes) {
		next.sets[kind] = s.sets[kind].with(changes)
	}
	return next
}

// byKind groups changes, the last one for a key winning.
func byKind(changes []Change) map[*kinds.Kind]map[kinds.Key]*kinds.Resource {
	grouped := map[*kinds.Kind]map[kinds.Key]*kinds.Resource{}
	for _, c := range changes {
		of := grouped[c.Key.Kind]
		if of == nil {
			of = map[kinds.Key]*kinds.Resource{}
			grouped[c.Key.Kind] = of
		}
		of[c.Key] = c.Resource
	}
	return grouped
}

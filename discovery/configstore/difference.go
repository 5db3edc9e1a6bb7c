package configstore

import (
	"iter"

	"github.com/pgmesh/pgmesh/kinds"
)

// Since iterates over the resources of a kind that are not the same as in another snapshot, by name: each as it was there and as it is
// here, nil where there is none. Where other is nil, everything has come. The rest costs a comparison of two pointers each.
func (s *Snapshot) Since(other *Snapshot, kind *kinds.Kind) iter.Seq2[*kinds.Resource, *kinds.Resource] {
	return func(yield func(before, after *kinds.Resource) bool) {
		if s.Same(other, kind) {
			return
		}
		var old []*kinds.Resource
		if other != nil {
			old = other.sets[kind].named()
		}
		now := s.sets[kind].named()
		for len(old) > 0 || len(now) > 0 {
			before, after := first(old), first(now)
			if before != nil && after != nil && before != after {
				switch c := compareName(before.Key(), after.Key()); {
				case c < 0:
					after = nil
				case c > 0:
					before = nil
				}
			}
			if before != after && !yield(before, after) {
				return
			}
			if before != nil {
				old = old[1:]
			}
			if after != nil {
				now = now[1:]
			}
		}
	}
}

func first(list []*kinds.Resource) *kinds.Resource {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

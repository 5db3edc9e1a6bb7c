package registry

import (
	"maps"

	"github.com/pgmesh/pgmesh/kinds"
)

// Changes are the changes from some resources to others. It puts back into now what has not changed,
// as KeepSame does.
func Changes(before, now []*kinds.Resource) []kinds.Change {
	KeepSame(before, now)
	return kinds.Difference(byKey(before), byKey(now))
}

// KeepSame puts resources of before that have not changed back into now, so that their pointers stay
// the same.
func KeepSame(before, now []*kinds.Resource) {
	old := byKey(before)
	for i, r := range now {
		if was := old[r.Key()]; was != nil && Same(was, r) {
			now[i] = was
		}
	}
}

// Same reports whether two states of a resource are equal.
func Same(a, b *kinds.Resource) bool {
	return a.CreateTime.Equal(b.CreateTime) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && a.Spec.Equal(b.Spec)
}

func byKey(all []*kinds.Resource) map[kinds.Key]*kinds.Resource {
	out := make(map[kinds.Key]*kinds.Resource, len(all))
	for _, r := range all {
		out[r.Key()] = r
	}
	return out
}

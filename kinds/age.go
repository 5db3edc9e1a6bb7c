package kinds

import (
	"cmp"
	"strings"
)

// CompareAge sorts by the rank of origins, then the older first, and then by name: where several
// resources claim the same, the first counts.
func CompareAge(a, b *Resource) int {
	if c := cmp.Compare(a.OriginRank(), b.OriginRank()); c != 0 {
		return c
	}
	if c := a.CreateTime.Compare(b.CreateTime); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Namespace, b.Namespace)
}

// Compare sorts by kind, namespace and name.
func (k Key) Compare(other Key) int {
	return cmp.Or(
		cmp.Compare(k.Kind.Name, other.Kind.Name), cmp.Compare(k.Kind.Group, other.Kind.Group),
		cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name),
	)
}

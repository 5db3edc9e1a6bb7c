package push

import "github.com/pgmesh/pgmesh/internal/ads/served"

// setChange is the difference between two sets.
type setChange struct {
	from, to *served.Set
	upserts  []*served.Resource
	gone     []string
}

func changeOf(from, to *served.Set) *setChange {
	c := &setChange{from: from, to: to}
	for _, name := range to.Changed(from) {
		if r := to.Get(name); r != nil {
			c.upserts = append(c.upserts, r)
		} else {
			c.gone = append(c.gone, name)
		}
	}
	return c
}

// clustersSince returns what changed in the clusters since an earlier set. The last answer is kept:
// hundreds of classes ask for the same one.
func (x *sharedView) clustersSince(before *served.Set) *setChange {
	if c := x.clusterChange; c == nil || c.from != before || c.to != x.clusters {
		x.clusterChange = changeOf(before, x.clusters)
	}
	return x.clusterChange
}

package publish

import (
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
)

// Content is everything that a source has at one position.
type Content struct {
	Resources map[*kinds.Kind][]*ads.Resource
	// Kept are the full names of resources that the source has in no state that may be served: clients keep the last good one.
	Kept map[*kinds.Kind][]string
}

// Changes lead from one position to the next.
type Changes struct {
	Upserts map[*kinds.Kind][]*ads.Resource
	Removed map[*kinds.Kind][]string // full names
}

// missing lists the names of a set that a source does not have any more.
func (c *Content) missing(set *ads.Set, kind *kinds.Kind) []string {
	there := make(map[string]bool, len(c.Resources[kind]))
	for _, r := range c.Resources[kind] {
		there[r.Name] = true
	}
	for _, name := range c.Kept[kind] {
		there[name] = true
	}
	var names []string
	for r := range set.All() {
		if !there[r.Name] {
			names = append(names, r.Name)
		}
	}
	return names
}

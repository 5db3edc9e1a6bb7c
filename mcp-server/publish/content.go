package publish

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// Content is the complete content of a source at one position.
type Content struct {
	Resources map[*kinds.Kind][]*served.Resource
	// Kept are the full names of resources that the source has in no state fit to serve. Clients
	// keep the last good one.
	Kept map[*kinds.Kind][]string
	// Secrets says that the source knows the secrets, so that a secret missing here is gone.
	Secrets bool
}

// Changes lead from one position to the next.
type Changes struct {
	Upserts map[*kinds.Kind][]*served.Resource
	Removed map[*kinds.Kind][]string // full names
	// Committed is when the last of them was committed; zero if unknown.
	Committed time.Time
}

// removedFrom lists the names in a set that the source does not have any more.
func (c *Content) removedFrom(set *served.Set, kind *kinds.Kind) []string {
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

// Add merges later changes into these, as if both were of one revision.
func (c *Changes) Add(later Changes) {
	if c.Upserts == nil {
		*c = later
		return
	}
	c.Committed = later.Committed
	for kind, names := range later.Removed {
		c.Upserts[kind] = slices.DeleteFunc(c.Upserts[kind], func(r *served.Resource) bool { return slices.Contains(names, r.Name) })
		c.Removed[kind] = append(c.Removed[kind], names...)
	}
	for kind, resources := range later.Upserts {
		names := make([]string, len(resources))
		for i, r := range resources {
			names[i] = r.Name
		}
		c.Removed[kind] = slices.DeleteFunc(c.Removed[kind], func(name string) bool { return slices.Contains(names, name) })
		c.Upserts[kind] = append(c.Upserts[kind], resources...)
	}
}

package legacy

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// item is a resource to send, or the name of one to remove.
type item struct {
	resource *served.Resource
	removed  string
}

// removedField is the field number of removed names, for sizes: in every form its tag takes one
// byte.
const removedField = 4

func (i item) size(field protowire.Number) int {
	if i.resource == nil {
		return protowire.SizeTag(removedField) + protowire.SizeBytes(len(i.removed))
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(i.resource.Body.GetValue()))
}

// pack fills a response with items up to room bytes, and returns how many it took.
func (r *response) pack(items []item, field protowire.Number, room int) int {
	taken, size := 0, 0
	for taken < len(items) && size+items[taken].size(field) <= room {
		size += items[taken].size(field)
		taken++
	}
	r.resources = make([]byte, 0, size)
	for _, i := range items[:taken] {
		if i.resource == nil {
			r.removed = append(r.removed, i.removed)
			continue
		}
		r.resources = protowire.AppendTag(r.resources, field, protowire.BytesType)
		r.resources = protowire.AppendBytes(r.resources, i.resource.Body.GetValue())
	}
	return taken
}

// sizeOf returns the encoded size of items.
func sizeOf(items []item, field protowire.Number) (size int) {
	for _, i := range items {
		size += i.size(field)
	}
	return size
}

// allItems returns all resources of a set as items.
func allItems(set *served.Set) []item {
	items := make([]item, 0, set.Len())
	for r := range set.All() {
		items = append(items, item{resource: r})
	}
	return items
}

// changesTo returns the items that bring a sink to a set, if it has each resource as one of the
// bases has it. Removals come last.
func changesTo(bases []*served.Set, to *served.Set) []item {
	var add, remove []item
	for _, name := range candidates(bases, to) {
		now := to.Get(name)
		known, same := compare(bases, name, now)
		switch {
		case now == nil && known:
			remove = append(remove, item{removed: name})
		case now != nil && !same:
			add = append(add, item{resource: now})
		}
	}
	return append(add, remove...)
}

func candidates(bases []*served.Set, to *served.Set) []string {
	if len(bases) == 1 {
		return to.Changed(bases[0])
	}
	// The union differs from each base, so names in none of them are found too.
	return to.Changed(union(bases))
}

// union returns a set with the names of all sets.
func union(sets []*served.Set) *served.Set {
	var all []*served.Resource
	for _, set := range sets {
		for r := range set.All() {
			all = append(all, r)
		}
	}
	return served.NewSet(all...)
}

// compare reports whether any base has a name, and whether each has it in its current version.
func compare(bases []*served.Set, name string, now *served.Resource) (known, same bool) {
	same = true
	for _, base := range bases {
		before := base.Get(name)
		known = known || before != nil
		same = same && before != nil && now != nil && before.Version == now.Version
	}
	return known, same
}

// withOld returns a set with some names in the version of the base: what a sink has that could not
// be sent these. With several bases, which may disagree, the names are left out.
func withOld(set *served.Set, names []string, bases []*served.Set) *served.Set {
	kept := map[string]*served.Resource{}
	for _, name := range names {
		kept[name] = nil
		if len(bases) == 1 {
			kept[name] = bases[0].Get(name)
		}
	}
	var all []*served.Resource
	for r := range set.All() {
		if before, left := kept[r.Name]; !left {
			all = append(all, r)
		} else if before != nil {
			all = append(all, before)
		}
	}
	return served.NewSet(all...)
}

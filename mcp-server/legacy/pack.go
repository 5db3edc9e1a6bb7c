package legacy

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// item is a resource that a sink is to be given, or the name of one that it is to forget.
type item struct {
	resource *ads.Resource
	removed  string
}

// removedField is the number of the removed names in a message, of one digit as all are: what counts is how long they get.
const removedField = 4

func (i item) size(field protowire.Number) int {
	if i.resource == nil {
		return protowire.SizeTag(removedField) + protowire.SizeBytes(len(i.removed))
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(i.resource.Body.GetValue()))
}

// pack puts items into a response until the next would make it larger than there is room for, and returns how many it took.
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

// sizeOf is how much items take in a message.
func sizeOf(items []item, field protowire.Number) (size int) {
	for _, i := range items {
		size += i.size(field)
	}
	return size
}

// whole are the items of a set.
func whole(set *ads.Set) []item {
	items := make([]item, 0, set.Len())
	for r := range set.All() {
		items = append(items, item{resource: r})
	}
	return items
}

// steps bring a sink to a set that has each resource as one of the bases has it. What is to go goes last.
func steps(bases []*ads.Set, to *ads.Set) []item {
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

func candidates(bases []*ads.Set, to *ads.Set) []string {
	if len(bases) == 1 {
		return to.Changed(bases[0])
	}
	// What is in none of the bases is found by comparing with nothing at all.
	return to.Changed(union(bases))
}

// union has the names of all sets.
func union(sets []*ads.Set) *ads.Set {
	var all []*ads.Resource
	for _, set := range sets {
		for r := range set.All() {
			all = append(all, r)
		}
	}
	return ads.NewSet(all...)
}

// compare tells whether any of the bases has a name, and whether each has it as it is now.
func compare(bases []*ads.Set, name string, now *ads.Resource) (known, same bool) {
	same = true
	for _, base := range bases {
		before := base.Get(name)
		known = known || before != nil
		same = same && before != nil && now != nil && before.Version == now.Version
	}
	return known, same
}

// without is a set that has some names as they were in the bases: what a sink has that they could not be sent to. Where the bases
// disagree it has none of them.
func without(set *ads.Set, names []string, bases []*ads.Set) *ads.Set {
	kept := map[string]*ads.Resource{}
	for _, name := range names {
		kept[name] = nil
		if len(bases) == 1 {
			kept[name] = bases[0].Get(name)
		}
	}
	var all []*ads.Resource
	for r := range set.All() {
		if before, left := kept[r.Name]; !left {
			all = append(all, r)
		} else if before != nil {
			all = append(all, before)
		}
	}
	return ads.NewSet(all...)
}

package served

import (
	"cmp"
	"slices"
	"sort"
)

// pages are resources sorted by name, in immutable pages. A change copies the affected pages and
// the list of pages, and shares the rest. A tree would copy less of a very large set, but take ten
// times the memory per resource.
type pages [][]*Resource

// With this size, a change in a set of a hundred thousand copies about as much of the list as of a
// page.
const maxPageSize = 512

// edit is a change of a name: to another resource, or to nil for removal.
type edit struct {
	name string
	to   *Resource
}

// of returns the index of the only page that may have a name. There must be at least one page.
func (p pages) of(name string) int {
	return max(0, sort.Search(len(p), func(i int) bool { return p[i][0].Name > name })-1)
}

func (p pages) get(name string) *Resource {
	if len(p) == 0 {
		return nil
	}
	page := p[p.of(name)]
	i, found := slices.BinarySearchFunc(page, name, func(r *Resource, name string) int { return cmp.Compare(r.Name, name) })
	if !found {
		return nil
	}
	return page[i]
}

// index returns the position of a name among all resources.
func (p pages) index(name string) (int, bool) {
	if len(p) == 0 {
		return 0, false
	}
	at, before := p.of(name), 0
	for _, page := range p[:at] {
		before += len(page)
	}
	i, found := slices.BinarySearchFunc(p[at], name, func(r *Resource, name string) int { return cmp.Compare(r.Name, name) })
	return before + i, found
}

// with applies edits, which must be sorted by name and unique. Where a resulting page equals one of
// others, it shares that one.
func (p pages) with(edits []edit, others pages) pages {
	next := make(pages, 0, len(p)+1+2*len(edits)/maxPageSize)
	for len(edits) > 0 {
		var page []*Resource
		if len(p) > 0 {
			at := p.of(edits[0].name)
			next, page, p = append(next, p[:at]...), p[at], p[at+1:]
		}
		here := len(edits)
		if len(p) > 0 {
			here = sort.Search(len(edits), func(i int) bool { return edits[i].name >= p[0][0].Name })
		}
		switch shared := others.pageLike(page, edits[:here]); {
		case shared != nil && len(page) > maxPageSize/4:
			next = append(next, shared)
		case others.have(page) && edits[here-1].name < page[0].Name:
			next = append(next.add(merged(nil, edits[:here])), page)
		default:
			next = next.add(merged(page, edits[:here]))
		}
		edits = edits[here:]
	}
	return append(next, p...)
}

// have reports whether a page is one of p, and large enough to be worth sharing.
func (p pages) have(page []*Resource) bool {
	if len(p) == 0 || len(page) <= maxPageSize/4 {
		return false
	}
	own := p[p.of(page[0].Name)]
	return len(own) == len(page) && &own[0] == &page[0]
}

// pageLike returns the page of p that equals a page with edits applied, or nil.
func (p pages) pageLike(page []*Resource, edits []edit) []*Resource {
	if len(p) == 0 || len(page) == 0 {
		return nil
	}
	found := p[p.of(page[len(page)/2].Name)]
	rest := found
	next := func(r *Resource) bool {
		same := len(rest) > 0 && rest[0] == r
		rest = rest[min(1, len(rest)):]
		return same
	}
	for _, e := range edits {
		for ; len(page) > 0 && page[0].Name < e.name; page = page[1:] {
			if !next(page[0]) {
				return nil
			}
		}
		if len(page) > 0 && page[0].Name == e.name {
			page = page[1:]
		}
		if e.to != nil && !next(e.to) {
			return nil
		}
	}
	if !slices.Equal(rest, page) {
		return nil
	}
	return found
}

// merged returns a page with edits applied.
func merged(page []*Resource, edits []edit) []*Resource {
	all := make([]*Resource, 0, len(page)+len(edits))
	for _, e := range edits {
		for len(page) > 0 && page[0].Name < e.name {
			all, page = append(all, page[0]), page[1:]
		}
		if len(page) > 0 && page[0].Name == e.name {
			page = page[1:]
		}
		if e.to != nil {
			all = append(all, e.to)
		}
	}
	return append(all, page...)
}

// add appends a page. It splits one that is too large, and merges a small one with a small last
// page.
func (p pages) add(page []*Resource) pages {
	last := len(p) - 1
	switch {
	case len(page) == 0:
		return p
	case len(page) > maxPageSize:
		for piece := range slices.Chunk(page, maxPageSize/2) {
			p = append(p, slices.Clone(piece))
		}
		return p
	case last >= 0 && len(p[last])+len(page) <= maxPageSize/2:
		p[last] = slices.Concat(p[last], page)
		return p
	}
	return append(p, page)
}

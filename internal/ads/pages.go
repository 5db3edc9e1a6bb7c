package ads

import (
	"cmp"
	"slices"
	"sort"
)

// pages are resources in the order of their names, in pieces that are never changed: who changes something copies the pieces that it is in
// and the list of them, and shares the rest. A tree would copy less of a very large set, and take ten times the memory for each resource.
type pages [][]*Resource

// A change in a set of a hundred thousand copies about as much of the list as of a piece.
const largestPage = 512

// edit is what becomes of a name: nil if nothing is left.
type edit struct {
	name string
	to   *Resource
}

// of returns the only page that may have a name. There must be one.
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

// index returns the place of a name among all.
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

// with makes the edits, which are in the order of names, and of which there is one at most to a name. Where that comes to a page that others have
// already, it is theirs.
func (p pages) with(edits []edit, others pages) pages {
	next := make(pages, 0, len(p)+1+2*len(edits)/largestPage)
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
		case shared != nil && len(page) > largestPage/4:
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

// have reports whether a page is one of these, and large enough to be worth sharing.
func (p pages) have(page []*Resource) bool {
	if len(p) == 0 || len(page) <= largestPage/4 {
		return false
	}
	own := p[p.of(page[0].Name)]
	return len(own) == len(page) && &own[0] == &page[0]
}

// pageLike is the page that has just what a page has once edits are made; nil if there is none.
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

// merged returns a page with edits made.
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

// add appends a page: in pieces if it has become too large, and to the one before if both have become small.
func (p pages) add(page []*Resource) pages {
	last := len(p) - 1
	switch {
	case len(page) == 0:
		return p
	case len(page) > largestPage:
		for piece := range slices.Chunk(page, largestPage/2) {
			p = append(p, slices.Clone(piece))
		}
		return p
	case last >= 0 && len(p[last])+len(page) <= largestPage/2:
		p[last] = slices.Concat(p[last], page)
		return p
	}
	return append(p, page)
}

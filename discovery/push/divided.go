package push

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// part is a part of a route configuration that is not made yet.
type part[P any] interface {
	Name() string
	Same(other P) bool
}

// parts are all those of a sort.
type parts[P part[P]] struct {
	set  *ads.Set
	made []*madePart[P] // nil where nobody knows what they were made from
}

// madePart is a part with what it was made from.
type madePart[P part[P]] struct {
	of P
	made
}

// replace brings the set to what was made of whole configurations.
func (p *parts[P]) replace(all made) made {
	p.set, p.made = all.over(p.set), nil
	return all
}

// update makes those that are not the same as before.
func (p *parts[P]) update(all []P, encode func(P) made) (news made) {
	before, now := p.made, make([]*madePart[P], len(all))
	first, last := 0, 0 // how many are the same from the beginning on, and from the end
	for first < min(len(before), len(all)) && before[first].of.Same(all[first]) {
		now[first] = before[first]
		first++
	}
	for last < min(len(before), len(all))-first && before[len(before)-1-last].of.Same(all[len(all)-1-last]) {
		last++
		now[len(now)-last] = before[len(before)-last]
	}
	old := make(map[string]*madePart[P], len(before)-first-last)
	for _, one := range before[first : len(before)-last] {
		old[one.of.Name()] = one
	}
	for i := first; i < len(all)-last; i++ {
		one := all[i]
		if now[i] = old[one.Name()]; now[i] == nil || !now[i].of.Same(one) {
			now[i] = &madePart[P]{one, encode(one)}
			news.add(now[i].made)
		}
		delete(old, one.Name())
	}
	if p.made == nil { // nobody knows what there was
		p.set = news.over(p.set)
	} else {
		p.set = p.set.With(news.resources, slices.Collect(maps.Keys(old)))
	}
	p.made = now
	return news
}

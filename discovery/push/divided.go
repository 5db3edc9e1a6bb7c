package push

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// part is an element of a route configuration that is sent as a resource of its own, such as a
// virtual host. It says what to make; it is not made yet.
type part[P any] interface {
	Name() string
	Same(other P) bool
}

// parts are all parts of one type, with the resources made from them.
type parts[P part[P]] struct {
	set  *served.Set
	made []*madePart[P] // nil if the set was made in another way
	// at is the index of made by name; nil until it is needed.
	at map[string]int
}

// madePart is a part with the resources made from it. Shared views share it.
type madePart[P part[P]] struct {
	of P
	made
}

// replace sets the resources to those made from whole configurations.
func (p *parts[P]) replace(all made) made {
	p.set, p.made, p.at = all.over(p.set), nil, nil
	return all
}

// update makes the parts that differ from the ones before, and drops those that are not in all.
func (p *parts[P]) update(all []P, translate func(P) *madePart[P]) (news made) {
	before, now := p.made, make([]*madePart[P], len(all))
	first, last := 0, 0 // how many parts are the same at both ends: most changes leave one gap
	for first < min(len(before), len(all)) && before[first].of.Same(all[first]) {
		now[first] = before[first]
		first++
	}
	for last < min(len(before), len(all))-first && before[len(before)-1-last].of.Same(all[len(all)-1-last]) {
		last++
		now[len(now)-last] = before[len(before)-last]
	}
	old := byName(before[first : len(before)-last])
	for i := first; i < len(all)-last; i++ {
		one := all[i]
		if now[i] = old[one.Name()]; now[i] == nil || !now[i].of.Same(one) {
			now[i] = translate(one)
			news.add(now[i].made)
		}
		delete(old, one.Name())
	}
	if p.made == nil { // the set was made in another way, so it cannot tell which names to drop
		p.set = news.over(p.set)
	} else {
		p.set = p.set.With(news.resources, slices.Collect(maps.Keys(old)))
	}
	p.made, p.at = now, nil
	return news
}

// change makes the given parts again if they differ, and drops others by name.
func (p *parts[P]) change(changed []P, gone []string, translate func(P) *madePart[P]) (news made) {
	p.find()
	for _, one := range changed {
		i, there := p.at[one.Name()]
		if there && p.made[i].of.Same(one) {
			continue
		}
		now := translate(one)
		news.add(now.made)
		if there {
			p.made[i] = now
		} else {
			p.at[one.Name()], p.made = len(p.made), append(p.made, now)
		}
	}
	for _, name := range gone {
		p.drop(name)
	}
	p.set = p.set.With(news.resources, gone)
	return news
}

// find fills the index.
func (p *parts[P]) find() {
	if p.at != nil {
		return
	}
	p.at = make(map[string]int, len(p.made))
	for i, one := range p.made {
		p.at[one.of.Name()] = i
	}
}

func byName[P part[P]](list []*madePart[P]) map[string]*madePart[P] {
	out := make(map[string]*madePart[P], len(list))
	for _, one := range list {
		out[one.of.Name()] = one
	}
	return out
}

// drop removes a part by moving the last one to its place.
func (p *parts[P]) drop(name string) {
	i, there := p.at[name]
	if !there {
		return
	}
	last := len(p.made) - 1
	p.made[i] = p.made[last]
	p.at[p.made[i].of.Name()] = i
	p.made = p.made[:last]
	delete(p.at, name)
}

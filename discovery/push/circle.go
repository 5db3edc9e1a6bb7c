package push

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// circle is the classes that see the same of the mesh, and that the same resources choose: what
// concerns a proxy of one concerns all. There are fewer circles than classes, which also differ in
// what their proxies serve and where they are. A circle is found again by its key, so it has its
// number for as long as it has classes, and no other circle ever has it.
type circle struct {
	number  uint32
	scope   *countedScope
	content map[kinds.Key]bool // what chooses its proxies
	used    bool
}

// circleKey tells circles apart.
type circleKey struct {
	scope  mesh.ScopeName
	chosen string   // by what, and what the proxies serve and do not see
	router classKey // of routers, each class of which is a circle: what it exposes changes often
}

// knownClass is what is known of a class.
type knownClass struct {
	class    *class
	router   classKey // of routers
	isRouter bool
	// The inputs that its circle was found by.
	scope    *mesh.Scope
	frontend *mesh.Frontend
	hidden   bool // its proxies serve what they do not see
	chosen   bool // some DestinationRules that they see are for selected workloads

	circle *circle
}

// gather finds the circles of all classes, and notes what chooses their proxies.
func (a *Audiences) gather(now *classList, at map[*mesh.Scope]*countedScope) {
	classes, before := make(map[*class]*knownClass, len(now.classes)), a.numbers
	var moved []*knownClass
	for i := range now.classes {
		c := &now.classes[i]
		known := a.classes[c.class]
		if known == nil {
			known = &knownClass{class: c.class, router: c.router, isRouter: c.proxy.Type == mesh.Router}
		}
		classes[c.class] = known
		if was := known.circle; a.enter(known, c, now, at[c.scope]) != was {
			moved = append(moved, known)
		}
		known.circle.used = true
	}
	a.classes = classes
	if a.dropCircles() || a.numbers != before {
		a.sort()
	}
	a.engine.number(moved)
}

// sort lists other circles than before: then everyone is others, too.
func (a *Audiences) sort() {
	a.sorted = slices.SortedFunc(maps.Values(a.circles), func(x, y *circle) int { return cmp.Compare(x.number, y.number) })
	for _, c := range a.resources {
		a.doubt(c)
	}
}

// enter finds the circle of a class.
func (a *Audiences) enter(known *knownClass, c *listedClass, now *classList, s *countedScope) *circle {
	alike := known.circle != nil && known.circle.scope == s && known.frontend == c.frontend && !known.hidden && now.mesh.ChoosesLike(a.mesh)
	if alike && known.scope != c.scope {
		alike = !known.chosen && !s.Chosen() && !c.hides()
	}
	known.scope, known.frontend, known.chosen = c.scope, c.frontend, s.Chosen()
	if alike {
		return known.circle
	}
	choice := now.mesh.ChoiceFor(c.proxy, s.ScopeCount)
	known.hidden = len(choice.Hidden) > 0
	key := circleKey{scope: c.scope.Name(), router: known.router}
	if !known.isRouter {
		key.chosen = encodeChoice(choice)
	}
	o := a.circles[key]
	if o == nil {
		a.numbers++
		o = &circle{number: a.numbers, scope: s}
		a.circles[key] = o
	}
	known.circle = o
	keys := slices.Concat(choice.By, choice.Serves)
	if c.frontend != nil {
		keys = append(keys, c.frontend.MadeFrom()...)
	}
	a.choose(o, keys)
	return o
}

func encodeChoice(choice mesh.Choice) string {
	var b strings.Builder
	for _, key := range choice.By {
		b.WriteString(key.Kind.Name + "/" + key.Namespace + "/" + key.Name + ",")
	}
	for _, host := range choice.Hidden {
		b.WriteString(";" + host)
	}
	return b.String()
}

// choose notes that these resources, and no others, choose the proxies of a circle.
func (a *Audiences) choose(o *circle, keys []kinds.Key) {
	now := make(map[kinds.Key]bool, len(keys))
	for _, key := range keys {
		now[key] = true
		if !o.content[key] {
			c := a.concern(key)
			if c.choosing == nil {
				c.choosing = map[*circle]bool{}
			}
			c.choosing[o] = true
			a.doubt(c)
		}
	}
	for key := range o.content {
		if !now[key] {
			a.leave(o, key)
		}
	}
	o.content = now
}

func (a *Audiences) leave(o *circle, key kinds.Key) {
	c := a.concern(key)
	delete(c.choosing, o)
	a.doubt(c)
}

// dropCircles drops those without classes, and reports whether there were some.
func (a *Audiences) dropCircles() (some bool) {
	for key, o := range a.circles {
		if !o.used {
			for of := range o.content {
				a.leave(o, of)
			}
			delete(a.circles, key)
			some = true
		}
		o.used = false
	}
	return some
}

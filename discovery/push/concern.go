package push

import "github.com/pgmesh/pgmesh/kinds"

// concern is what is known of whom a resource concerns.
type concern struct {
	of kinds.Key
	// shown says how often each counted scope shows it, by the index of the scope.
	shown []int
	// choosing are the circles whose proxies it chooses.
	choosing map[*circle]bool
	all      bool // it concerns everyone
	told     Audience
}

// concern returns what is known of a resource.
func (a *Audiences) concern(of kinds.Key) *concern {
	c := a.resources[of]
	if c == nil {
		c = &concern{of: of}
		a.resources[of] = c
	}
	return c
}

// count adds to how often a scope shows the resource, and reports whether it begins or ceases
// to have it.
func (c *concern) count(scope, n int) (other bool) {
	for len(c.shown) <= scope {
		c.shown = append(c.shown, 0)
	}
	before := c.shown[scope]
	c.shown[scope] += n
	return (before == 0) != (c.shown[scope] == 0)
}

// concerns reports whether the resource is for the proxies of a circle.
func (c *concern) concerns(o *circle) bool {
	return o.scope.index < len(c.shown) && c.shown[o.scope.index] > 0 || c.choosing[o]
}

// audience returns whom the resource concerns, of all circles.
func (c *concern) audience(circles []*circle) Audience {
	out := Audience{Of: c.of}
	if c.all {
		out.Everyone = true
		return out
	}
	var numbers []uint32
	for _, o := range circles {
		if c.concerns(o) {
			numbers = append(numbers, o.number)
		}
	}
	if len(numbers) > 0 && len(numbers) == len(circles) {
		out.Everyone = true
	} else {
		out.Circles = numbers
	}
	return out
}

// unknown reports whether the resource concerns nobody, and was told so.
func (c *concern) unknown() bool { return !c.told.Everyone && len(c.told.Circles) == 0 }

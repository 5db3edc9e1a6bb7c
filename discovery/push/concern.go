package push

import "github.com/pgmesh/pgmesh/kinds"

// concern is what is known of whom a resource concerns.
type concern struct {
	of kinds.Key
	// shown says how often each sight has it, by the index of the sight.
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

// count adds to how often a sight has the resource, and reports whether the sight begins or ceases
// to have it.
func (c *concern) count(sight, n int) (other bool) {
	for len(c.shown) <= sight {
		c.shown = append(c.shown, 0)
	}
	before := c.shown[sight]
	c.shown[sight] += n
	return (before == 0) != (c.shown[sight] == 0)
}

// concerns reports whether the resource is for the proxies of a circle.
func (c *concern) concerns(o *circle) bool {
	return o.sight.index < len(c.shown) && c.shown[o.sight.index] > 0 || c.choosing[o]
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

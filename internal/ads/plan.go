package ads

import "slices"

// Plan is the order in which the parts of a change travel to a client.
type Plan struct {
	// When is a canonical type URL: the plan applies to streams subscribed to it, or to all if it
	// is "". A client that asks for a plan in this way gets it strictly: the stream waits for it
	// without a time limit.
	When string
	// Stages run in order. A type that no stage is about travels as soon as it can.
	Stages []Stage
}

// Stage is one step of a plan. The next stage begins when the client has answered everything in
// this one.
type Stage struct {
	// Types lists canonical type URLs; nil stands for every type that no other stage lists.
	Types []string
	Part  Part
	// Overlap lets the next stage begin before the client has answered, because the stream's own
	// order is enough.
	Overlap bool
	// AtOnce lists those of the types that a client applies at once, and before it reads what
	// follows. The next stage does not wait for the answers about them, unless a resource that was
	// sent warms up (served.Resource.Warms).
	AtOnce []string
}

// Part says how much of a change a stage sends.
type Part int

const (
	// Whole is additions, changes and removals.
	Whole Part = iota
	// Make is additions and changes. What is removed or emptied stays until the Break stage.
	Make
	// Break is the rest: removals, and resources that became empty.
	Break
)

func (p Part) extent() extent {
	if p == Make {
		return additions
	}
	return everything
}

// has reports whether stage i is about a type.
func (p *Plan) has(i int, typeURL string) bool {
	if p.Stages[i].Types != nil {
		return slices.Contains(p.Stages[i].Types, typeURL)
	}
	for _, s := range p.Stages {
		if slices.Contains(s.Types, typeURL) {
			return false
		}
	}
	return true
}

// allowed returns how much of a type's change may be sent at a stage: nothing, the additions, or
// everything.
func (p *Plan) allowed(stage int, typeURL string) extent {
	e, listed := nothing, false
	for i := range p.Stages {
		if !p.has(i, typeURL) {
			continue
		}
		listed = true
		if i <= stage {
			e = p.Stages[i].Part.extent()
		}
	}
	if !listed {
		return everything
	}
	return e
}

// breaks reports whether the removals of a type have their own stage.
func (p *Plan) breaks(typeURL string) bool {
	for i := range p.Stages {
		if p.Stages[i].Part == Break && p.has(i, typeURL) {
			return true
		}
	}
	return false
}

// extent is how much of a change a client has or may be sent.
type extent uint8

const (
	nothing extent = iota
	additions
	everything
)

package ads

import "slices"

// Plan is the order in which the parts of a change travel to a client.
type Plan struct {
	// When is a canonical type URL: the plan is followed by streams that are subscribed to it, by all if it is "". A client
	// that asks for a plan gets it strictly: it is waited for however long it takes.
	When string
	// Stages are gone through in order. A type that no stage is about travels as soon as it can.
	Stages []Stage
}

// Stage is one step of a plan. The next stage begins when the client has answered everything of this one.
type Stage struct {
	// Types lists canonical type URLs; nil stands for every type that no other stage lists.
	Types []string
	Part  Part
	// Overlap lets the next stage begin before the client has answered: the stream's own order is enough.
	Overlap bool
}

// Part says how much of a change a stage sends.
type Part int

const (
	// Whole is additions, changes and removals.
	Whole Part = iota
	// Make is additions and changes: what is to be removed or emptied stays until the stage that breaks.
	Make
	// Break is the rest: the removals, and what is left empty.
	Break
)

func (p Part) extent() extent {
	if p == Make {
		return additions
	}
	return everything
}

// has tells whether a stage is about a type.
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

// allowed tells how much of a change may be sent for a type while the plan is at a stage: nothing, the additions, or all.
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

// breaks tells whether the removals of a type have a stage of their own.
func (p *Plan) breaks(typeURL string) bool {
	for i := range p.Stages {
		if p.Stages[i].Part == Break && p.has(i, typeURL) {
			return true
		}
	}
	return false
}

// extent is how much of a change a client has, or may be sent.
type extent uint8

const (
	nothing extent = iota
	additions
	everything
)

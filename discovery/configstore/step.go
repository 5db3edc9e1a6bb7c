package configstore

import "github.com/pgmesh/pgmesh/kinds"

// Step is a snapshot, with what led to it from the one before. The database knows what a
// transaction changed; a step passes that on, so that no later stage has to find it again.
type Step struct {
	*Snapshot

	before *Snapshot
	edits  map[*kinds.Kind][]Edit
}

// Edit is a resource before and after a step; nil if there was, or is, none.
type Edit struct{ Before, After *kinds.Resource }

// Edits lists the resources of a kind that the step changes, sorted by name and then by namespace.
func (s Step) Edits(kind *kinds.Kind) []Edit { return s.edits[kind] }

// Touches reports whether the step changes a resource of one of these kinds.
func (s Step) Touches(some ...*kinds.Kind) bool {
	for _, kind := range some {
		if len(s.edits[kind]) > 0 {
			return true
		}
	}
	return false
}

// Follows reports whether the step begins at a snapshot.
func (s Step) Follows(snapshot *Snapshot) bool { return s.before == snapshot }

// FromNothing returns the step from an empty configuration to this one.
func (s *Snapshot) FromNothing() Step {
	step := Step{Snapshot: s, edits: map[*kinds.Kind][]Edit{}}
	for kind := range s.sets {
		step.edits[kind] = s.All(kind)
	}
	return step
}

// FromItself returns a step that changes nothing.
func (s *Snapshot) FromItself() Step { return Step{Snapshot: s, before: s} }

// All returns the edits that create all resources of a kind.
func (s *Snapshot) All(kind *kinds.Kind) []Edit {
	named := s.sets[kind].named()
	out := make([]Edit, len(named))
	for i, r := range named {
		out[i].After = r
	}
	return out
}

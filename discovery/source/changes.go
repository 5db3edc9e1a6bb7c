package source

import (
	"github.com/pgmesh/pgmesh/kinds"
)

// changesOf returns the changes that create everything.
func changesOf(held map[kinds.Key]*kinds.Resource) []kinds.Change {
	out := make([]kinds.Change, 0, len(held))
	for key, r := range held {
		out = append(out, kinds.Change{Key: key, Resource: r})
	}
	return out
}

// Difference returns the changes from one state to another. It compares pointers.
func Difference(before, after map[kinds.Key]*kinds.Resource) []kinds.Change {
	var out []kinds.Change
	for key, r := range after {
		if before[key] != r {
			out = append(out, kinds.Change{Key: key, Resource: r})
		}
	}
	for key := range before {
		if after[key] == nil {
			out = append(out, kinds.Change{Key: key})
		}
	}
	return out
}

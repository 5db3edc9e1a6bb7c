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

package source

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
)

// ranksOfServer is how many origins a server can tell apart where several servers are followed:
// later ones count as its last.
const ranksOfServer = 1000

// MostBehind is how many sources can stand behind the first: ranks have 16 bits.
const MostBehind = 64

// Behind makes a source count after others wherever several claim one host: the first source behind
// has the place 1.
func Behind(s Source, place int) Source { return behind{s, place} }

type behind struct {
	Source

	place int
}

// Run follows the source.
func (b behind) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	return b.Source.Run(ctx, func(batch kinds.Batch) error {
		batch.Changes = b.moved(batch.Changes)
		return apply(batch)
	})
}

// moved raises the ranks of resources. What was the server's own stays before what its registries have.
func (b behind) moved(changes []kinds.Change) []kinds.Change {
	out := make([]kinds.Change, len(changes))
	for i, c := range changes {
		if c.Resource != nil {
			c.Resource = c.Resource.WithRank(b.place*ranksOfServer + min(c.Resource.OriginRank(), ranksOfServer-1))
		}
		out[i] = c
	}
	return out
}

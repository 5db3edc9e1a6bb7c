package rollout

import (
	"math"

	"github.com/pgmesh/pgmesh/store"
)

// Times is how many microseconds the last change took of each stream.
type Times struct{ Streams, Took []uint64 }

func (t *Times) check() error {
	if t == nil {
		return nil
	}
	seen := make(map[uint64]bool, len(t.Streams))
	for _, stream := range t.Streams {
		seen[min(stream, math.MaxInt64)] = true
	}
	if len(t.Streams) != len(t.Took) || len(seen) != len(t.Streams) {
		return &store.InvalidError{Reason: "there is not one time for each stream", Advice: "name each stream once, and as many times"}
	}
	return nil
}

// columns are the parameters; nil if they are as before.
func (t *Times) columns() (streams, took []int64) {
	if t == nil {
		return nil, nil
	}
	return signed(t.Streams), durations(t.Took)
}

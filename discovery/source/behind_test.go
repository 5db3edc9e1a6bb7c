package source_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/discovery/source/sourcetest"
	"github.com/pgmesh/pgmesh/kinds"
)

// What a source further behind has counts less, and each keeps its own order.
func TestASourceBehindOthersCountsAfterThem(t *testing.T) {
	t.Parallel()
	ranks := func(place int) (own, last int) {
		m := source.NewMemory()
		m.Replace(entry(t, "a", "a.example"), entry(t, "b", "b.example").WithRank(65535))
		batches := make(chan kinds.Batch, 1)
		sourcetest.Run(t, source.Behind(m, place), func(b kinds.Batch) error { batches <- b; return nil })
		for _, c := range (<-batches).Changes {
			if c.Key.Name == "a" {
				own = c.Resource.OriginRank()
			} else {
				last = c.Resource.OriginRank()
			}
		}
		return own, last
	}
	before := 0
	for place := 1; place <= source.MostBehind; place++ {
		own, last := ranks(place)
		require.Greater(t, own, before)
		require.Greater(t, last, own)
		before = last
	}
}

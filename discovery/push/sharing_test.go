package push_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/randommesh"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// TestEqualResourcesShareMemory has different proxies follow random histories: two resources with
// the same name and bytes are the same pointer.
func TestEqualResourcesShareMemory(t *testing.T) {
	t.Parallel()
	template := randommesh.NewTemplate(t)
	shared := 0
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 4))
		b := newBench()
		var proxies []*served.Subscriber
		for _, n := range template.Nodes(t) {
			proxies = append(proxies, b.open(t, &envoy{n, dice.IntN(2) == 0}))
		}
		for _, batch := range randommesh.History(t, dice, template, 10) {
			b.push(batch.Changes)
		}
		first := map[[3]string]*served.Resource{}
		for _, p := range proxies {
			for typeURL, set := range p.Snapshot().Sets {
				for r := range set.All() {
					is := [3]string{typeURL, r.Name, r.Version}
					if known := first[is]; known != nil {
						require.Same(t, unsafe.SliceData(known.Body.GetValue()), unsafe.SliceData(r.Body.GetValue()), "seed %d: %v is in memory twice", seed, is)
						shared++
					}
					first[is] = r
				}
			}
			p.Close()
		}
	}
	require.NotZero(t, shared, "no two proxies have anything in common: the test compares nothing")
}

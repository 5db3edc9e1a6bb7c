package push_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a new route costs hardly depends on how many there are: for each of them a few pointers are
// copied, and nothing is made or compared. It counts bytes, so it runs alone.
func TestANewRouteCostsTheSameHoweverManyThereAre(t *testing.T) { //nolint:paralleltest // other tests allocate, too
	const few, many, perRoute = 500, 4000, 64
	cost := bytesOfANewRoute(t, many) - bytesOfANewRoute(t, few)
	require.Less(t, cost/(many-few), perRoute, "bytes that a new route costs for each that is there")
}

// bytesOfANewRoute is how much memory a new route of a Gateway takes on its way, at the median.
func bytesOfANewRoute(t *testing.T, among int) int {
	t.Helper()
	b := newBench()
	config := []string{apiGateway, serviceOf(0, 1)}
	for i := range among {
		config = append(config, httpRoute(i, 0))
	}
	b.apply(t, strings.Join(config, "---"))
	b.connect(t, apiRouter(), true)
	var all []int
	for i := range 9 {
		news := changesOf(t, httpRoute(among+i, 0))
		before := allocated()
		b.push(news)
		all = append(all, allocated()-before)
	}
	slices.Sort(all)
	return all[len(all)/2] // some have to make a table larger
}

// allocated is how many bytes were ever allocated.
func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}

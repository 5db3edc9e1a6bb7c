package route

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
)

func TestWeights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ weights, want []int32 }{
		{[]int32{90, 10}, []int32{90, 10}},
		{[]int32{900, 100}, []int32{900, 100}},
		{[]int32{1, 1, 1}, []int32{1, 1, 1}},
		{[]int32{math.MaxInt32, math.MaxInt32, 1}, []int32{math.MaxInt32, math.MaxInt32, 1}}, // exactly what Envoy takes
		{[]int32{math.MaxInt32, math.MaxInt32, 2}, []int32{math.MaxInt32 / 4, math.MaxInt32 / 4, 1}},
		{[]int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, []int32{math.MaxInt32 / 4, math.MaxInt32 / 4, math.MaxInt32 / 4}},
	} {
		require.Equal(t, c.want, shares(c.weights), c.weights)
	}
}

// However many there are, Envoy can add them up.
func TestWeightsFitEnvoy(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4096; n *= 2 {
		weights := slices.Concat(slices.Repeat([]int32{math.MaxInt32}, n), slices.Repeat([]int32{1}, n))
		var sum uint64
		for _, w := range shares(weights) {
			require.Positive(t, w)
			sum += uint64(w)
		}
		require.LessOrEqual(t, sum, uint64(math.MaxUint32), n)
	}
}

func shares(weights []int32) (out []int32) {
	destinations := make([]*networking.RouteDestination, len(weights))
	for i, w := range weights {
		destinations[i] = &networking.RouteDestination{Weight: w}
	}
	s := Divide(destinations)
	for _, w := range weights {
		out = append(out, int32(s.Share(w)))
	}
	return out
}

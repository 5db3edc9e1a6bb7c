package limits

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdleAddressesAreForgotten(t *testing.T) {
	t.Parallel()
	r := newRates(1000, 1)
	for i := range 20_000 {
		require.Zero(t, r.take(fmt.Sprint(i)))
	}
	require.Less(t, len(r.of), 20_000)
	busy := newRates(0.001, 2)
	require.Zero(t, busy.take("busy"))
	for i := range 20_000 {
		busy.take(fmt.Sprint(i))
	}
	require.Zero(t, busy.take("busy"))
	require.Positive(t, busy.take("busy"), "who is busy is remembered")
}

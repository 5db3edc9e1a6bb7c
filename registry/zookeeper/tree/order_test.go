package tree

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that knows less is believed only where all have known less for long, without a break in
// which none could say.
func TestOrder(t *testing.T) {
	t.Parallel()
	var o order
	require.NoError(t, o.check(10, time.Hour))
	o.seen(20)
	require.NoError(t, o.check(20, time.Hour))
	require.ErrorContains(t, o.check(19, time.Hour), "it knows transactions until 0x13, and ZooKeeper was at 0x14 before")
	o.seen(21) // by the server that was not believed
	require.NoError(t, o.check(20, time.Hour), "another server")

	o.behind = time.Now().Add(-time.Minute)
	require.NoError(t, o.check(5, time.Minute), "all have known less for a minute")
	require.NoError(t, o.check(5, time.Minute), "which is what there is now")

	require.Error(t, o.check(4, time.Minute))
	o.behind = time.Now().Add(-time.Minute)
	o.unknown()
	require.Error(t, o.check(4, time.Minute), "it is the first that says so since none could be asked")
}

package supervise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThePauseGrowsWhileEnvoyKeepsDying(t *testing.T) {
	t.Parallel()
	p := newRestartPause()
	require.True(t, p.isFirst())
	require.LessOrEqual(t, p.next(time.Second), 2*firstPause, "the first restart is quick")
	require.False(t, p.isFirst())
	for range 20 {
		require.LessOrEqual(t, p.next(time.Second), lastPause*3/2)
	}
	require.GreaterOrEqual(t, p.next(time.Second), lastPause/2)
}

func TestThePauseIsShortAgainAfterAHealthyLife(t *testing.T) {
	t.Parallel()
	p := newRestartPause()
	for range 20 {
		p.next(time.Second)
	}
	require.LessOrEqual(t, p.next(healthyAfter), 2*firstPause)
}

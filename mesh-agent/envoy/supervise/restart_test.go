package supervise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelayGrowsWhileEnvoyKeepsDying(t *testing.T) {
	t.Parallel()
	p := newRestartBackoff()
	require.True(t, p.isFirst())
	require.LessOrEqual(t, p.next(time.Second), 2*restarting.First, "the first restart is quick")
	require.False(t, p.isFirst())
	for range 20 {
		require.LessOrEqual(t, p.next(time.Second), restarting.Longest*3/2)
	}
	require.GreaterOrEqual(t, p.next(time.Second), restarting.Longest/2)
}

func TestDelayIsShortAgainAfterAHealthyRun(t *testing.T) {
	t.Parallel()
	p := newRestartBackoff()
	for range 20 {
		p.next(time.Second)
	}
	require.LessOrEqual(t, p.next(healthyAfter), 2*restarting.First)
}

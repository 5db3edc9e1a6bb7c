package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// While changes follow one another, no more proxies fall out of step than may be described, however
// late all are. What the others are reported to run they run.
func TestFewFallOutOfStepWhereAllAreLate(t *testing.T) {
	t.Parallel()
	const proxies = 1000
	l := &ledger{proxies: map[*ads.Stream]*entry{}, singly: newSingly()}
	var streams []*ads.Stream
	for i := range proxies {
		s := &ads.Stream{}
		streams = append(streams, s)
		l.proxies[s] = &entry{number: uint64(i), told: &rolloutv1.Proxy{State: rolloutv1.Proxy_STATE_IN_STEP}}
	}
	now, described := time.Unix(100, 0), 0
	for turn := range int64(100) {
		now = now.Add(interval)
		before := 2 * turn
		l.newest = before
		l.singly.note(before+2, now)
		for i, s := range streams { // all are late, by up to 50 revisions
			l.proxies[s].runs = max(0, before-int64(i)/20)
		}
		step := l.common(streams, before, now)
		require.GreaterOrEqual(t, step, l.step)
		require.Greater(t, step, before-50, "the revision of all follows")
		l.step = step
		for _, s := range streams {
			e := l.proxies[s]
			if e.runs >= step {
				e.told = &rolloutv1.Proxy{State: rolloutv1.Proxy_STATE_IN_STEP}
			} else if state := e.state(step, 0, now); !l.waits(e, state, now) {
				e.told = state
				described++
			}
		}
	}
	require.LessOrEqual(t, described, singlyBurst+int(now.Sub(time.Unix(100, 0)).Seconds()*singlySecond))
	require.Greater(t, described, singlyBurst, "who is late is told, as far as there is room")

	// Nothing follows: all are told.
	now = now.Add(calmAfter)
	require.Equal(t, l.newest, l.common(streams, l.newest, now))
	require.True(t, l.singly.may(now))
}

// What a proxy has lost is told at once, room or not.
func TestWhoMayRunLessThanWasToldIsToldAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	l := &ledger{singly: newSingly()}
	l.singly.note(9, now)
	require.True(t, l.singly.pace.AllowN(now, singlyBurst))
	sending := func(runs int64) *rolloutv1.Proxy {
		return &rolloutv1.Proxy{State: rolloutv1.Proxy_STATE_SENDING, Runs: runs}
	}
	require.True(t, l.waits(&entry{told: sending(5)}, sending(7), now))
	require.False(t, l.waits(&entry{told: sending(5)}, sending(4), now))
	require.False(t, l.waits(&entry{told: &rolloutv1.Proxy{State: rolloutv1.Proxy_STATE_IN_STEP}}, sending(7), now))
	require.False(t, l.waits(&entry{}, sending(7), now))
	require.False(t, l.waits(&entry{told: sending(5)}, &rolloutv1.Proxy{State: rolloutv1.Proxy_STATE_SILENT}, now))
}

package limits_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/limits"
)

func newMemory(mib int) *limits.Memory {
	return limits.NewMemory(mib<<20, func(holder string, _, _ int) string { return holder + " comes back later" })
}

func take(t *testing.T, m *limits.Memory, holder string, mib int) (release func()) {
	t.Helper()
	release, err := m.Take(t.Context(), holder, mib<<20)
	require.NoError(t, err)
	return release
}

func TestOneHolderLeavesHalfOfTheMemoryToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100)
		release := take(t, m, "greedy", 30)
		began := time.Now()
		_, err := m.Take(t.Context(), "greedy", 30<<20)
		refused(t, err, "greedy comes back later")
		require.Equal(t, 5*time.Second, time.Since(began), "it waits before it is turned away")
		take(t, m, "other", 70)
		_, err = m.Take(t.Context(), "third", 1<<20)
		refused(t, err, "third comes back later")
		release()
		release() // once more is no matter
		take(t, m, "third", 30)
		require.Equal(t, 100<<20, m.Used())
		take(t, m, "small", 0)
	})
}

func TestMemoryIsGivenInTheOrderInWhichItIsAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100)
		release := take(t, m, "first", 90)
		got := map[string]chan func(){}
		for _, who := range []struct {
			name string
			mib  int
		}{{"large", 80}, {"small", 30}} {
			got[who.name] = make(chan func(), 1)
			go func() {
				if release, err := m.Take(context.Background(), who.name, who.mib<<20); err == nil {
					got[who.name] <- release
				}
			}()
			synctest.Wait()
		}
		release()
		synctest.Wait()
		require.Empty(t, got["small"], "it does not overtake a large one for ever")
		(<-got["large"])()
		<-got["small"]
	})
}

func TestNoMoreWaitsForMemoryThanThereIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100)
		release := take(t, m, "first", 100)
		waits := make(chan error, 10)
		for _, who := range []string{"greedy", "other", "third"} {
			go func() { _, err := m.Take(context.Background(), who, 60<<20); waits <- err }()
			synctest.Wait()
		}
		began := time.Now()
		for _, who := range []string{"greedy", "fourth"} {
			_, err := m.Take(t.Context(), who, 60<<20)
			refused(t, err, who+" comes back later")
		}
		require.Zero(t, time.Since(began), "what waits is in memory, too")
		release()
		require.NoError(t, <-waits)
		require.Error(t, <-waits, "which waits for the first")
		require.Error(t, <-waits)
	})
}

func TestWhatIsLargerThanAllIsTakenAlone(t *testing.T) {
	t.Parallel()
	m := newMemory(10)
	release := take(t, m, "a", 50)
	require.Equal(t, 10<<20, m.Used())
	release()
	require.Zero(t, m.Used())
}

func TestWhoWantsTooMuchWaitsForItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := limits.NewShares(40, 80, func() string { return "answer with nonces" })
		var waited atomic.Int64 // several wait at once below
		s.Waited = func(d time.Duration) { waited.Add(int64(d)) }
		began := time.Now()
		for range 120 {
			require.NoError(t, s.Take(t.Context(), "greedy", 1))
		}
		require.InDelta(t, 10, time.Since(began).Seconds(), 0.1, "20 at once and then ten a second, a quarter of all")
		require.InDelta(t, 10, time.Duration(waited.Load()).Seconds(), 0.1)
		began = time.Now()
		for range 20 {
			require.NoError(t, s.Take(t.Context(), "other", 1))
		}
		require.Zero(t, time.Since(began))
		many := make(chan error, 100)
		for range 100 { // on as many streams
			go func() { many <- s.Take(t.Context(), "greedy", 1) }()
		}
		turnedAway := 0
		for range 100 {
			if err := <-many; err != nil {
				refused(t, err, "answer with nonces")
				turnedAway++
			}
		}
		require.InDelta(t, 50, turnedAway, 1, "for whom it would take longer than five seconds")
	})
}

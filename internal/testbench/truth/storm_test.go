package truth_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// scale is how much happens.
type scale struct {
	members int
	rounds  int
	lasting time.Duration // begin rounds for so long, if it is not 0
	storm   time.Duration // how long a round lasts before it comes to rest
	exact   time.Duration // within what time all is to be exact when it rests
}

// What the database says is true while parts die, and exact when all has come to rest. make rollout
// has it so for minutes, with many proxies; PGMESH_SEED replays the dice.
func TestWhatTheDatabaseSaysOfProxiesIsTrue(t *testing.T) {
	t.Parallel()
	s := scale{members: 60, rounds: 4, storm: 2 * time.Second, exact: 10 * time.Second} // beside other tests
	if long := os.Getenv("ROLLOUT"); long != "" {
		lasting, err := time.ParseDuration(long)
		require.NoError(t, err)
		s = scale{members: 300, lasting: lasting, storm: 8 * time.Second, exact: 2 * time.Second}
	}
	m := newMesh(t, s.members)
	m.storms(s, seed(t))
}

func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv("PGMESH_SEED"); text != "" {
		var err error
		n, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("PGMESH_SEED=%d", n)
	return n
}

// storms lets rounds pass, each of which ends with all at rest.
func (m *mesh) storms(s scale, seed uint64) {
	m.t.Helper()
	dice := rand.New(rand.NewPCG(seed, 1))
	o, w := newObserver(m), &writer{mesh: m, changes: map[string]int{}}
	w.write(m.t.Context(), m.marks...)
	for i, p := range m.members {
		p.come(i, true)
	}
	observing, over := context.WithCancel(m.t.Context())
	observed := make(chan struct{})
	go func() { defer close(observed); o.observe(observing) }()
	m.quiet(o, w, s.exact)
	begun := time.Now()
	for n := 0; n < s.rounds || time.Since(begun) < s.lasting; n++ {
		m.storm(n, s, w, dice)
		took := m.quiet(o, w, s.exact)
		m.t.Logf("after %s all was exact %s after it came to rest; %d revisions", time.Since(begun).Round(time.Second), took.Round(time.Millisecond), w.written)
		m.require(o)
	}
	over()
	<-observed
	m.require(o)
}

// require fails the test if the database has said what is not so.
func (m *mesh) require(o *observer) {
	m.t.Helper()
	lies, reads := o.told()
	require.Empty(m.t, lies, "of %d readings", reads)
	require.Positive(m.t, reads)
}

// storm lets everything happen at once for a while.
func (m *mesh) storm(n int, s scale, w *writer, dice *rand.Rand) {
	m.t.Helper()
	ctx, over := context.WithTimeout(m.t.Context(), s.storm)
	defer over()
	var all sync.WaitGroup
	next := m.nextDeath(n, dice)
	all.Go(func() { m.die(next) })
	restless := rand.New(rand.NewPCG(dice.Uint64(), 2))
	all.Go(func() { m.restless(ctx, restless) })
	for wait.For(ctx, time.Duration(dice.ExpFloat64()*float64(100*time.Millisecond))) {
		w.write(ctx, m.some(dice)...)
	}
	all.Wait()
	back := time.Now()
	m.well(longestRecovery)
	m.t.Logf("all programs and reports were there %s after the last came back", time.Since(back).Round(time.Millisecond))
}

// longestRecovery is more than the longest pauses between the retries of discoveries.
const longestRecovery = 30 * time.Second

// some are marks, at least one.
func (m *mesh) some(dice *rand.Rand) (marks []mark) {
	order := dice.Perm(len(m.marks))
	for _, i := range order[:1+dice.IntN(len(order))] {
		marks = append(marks, m.marks[i])
	}
	return marks
}

// restless has members behave otherwise, vanish and come back.
func (m *mesh) restless(ctx context.Context, dice *rand.Rand) {
	pause := 3 * time.Second / time.Duration(len(m.members))
	for wait.For(ctx, time.Duration(dice.ExpFloat64()*float64(pause))) {
		p, at := m.members[dice.IntN(len(m.members))], dice.IntN(2)
		switch dice.IntN(4) {
		case 0, 1:
			p.behave(ways[dice.IntN(len(ways))])
		case 2:
			p.vanish()
		case 3:
			p.come(at, dice.IntN(3) == 0)
		}
	}
}

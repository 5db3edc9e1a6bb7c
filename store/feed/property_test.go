package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// TestFeedUnderRandomTransactions has writers do everything that SQL lets them do, at once, while
// sessions are killed, and a follower that is killed and resumed. PGMESH_SEED replays the dice, if
// not the timing. SOAK=10m goes on for that long.
func TestFeedUnderRandomTransactions(t *testing.T) { //nolint:tparallel // the rounds of a soak are one after the other
	t.Parallel()
	seed := storetest.Seed(t)
	soak, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		randomTransactions(t, seed, 6, 350)
		return
	}
	var before runtime.MemStats
	for round, end := 0, time.Now().Add(soak); time.Now().Before(end); round++ {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { randomTransactions(t, seed+uint64(round), 8, 1500) })
		runtime.GC()
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		if round == 0 {
			before = after
		}
		t.Logf("%d MB in use", after.HeapAlloc>>20)
		require.Less(t, after.HeapAlloc, before.HeapAlloc+64<<20, "memory grows from round to round")
	}
}

func randomTransactions(t *testing.T, seed uint64, writers, transactions int) {
	t.Helper()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec(auditing)
	idle := storetest.Connect(t, url)
	idle.Exec("SET mesh.message = 'idle'; BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
	idle.Put("idle", "a")

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var background errgroup.Group
	follower := &mortalFollower{url: url, dice: rand.New(rand.NewPCG(seed, 0)), news: make(chan struct{}, 1)}
	background.Go(func() error { return follower.run(ctx) })
	watch := &observer{feed: storetest.Feed(t, storetest.OpenURL(t, url)), taken: snapshots{}}
	done := write(t, url, seed, writers, transactions, watch)
	idle.Exec("COMMIT")
	last := db.Newest()
	require.NoError(t, follower.reach(last))
	stop()
	require.NoError(t, background.Wait())

	agree(t, follower.batches, readAudit(t, db))
	require.Greater(t, len(watch.taken), transactions/50)
	watch.taken[last], _ = storetest.Tables(t, watch.feed)
	watch.taken.agree(t, follower.batches)
	inOrderOfCommit(t, follower.batches, done)
	require.Len(t, follower.batches, int(last))
	require.Equal(t, "idle", follower.batches[last-1].Message, "who commits last is last, and keeps nobody waiting")
	require.Greater(t, last, store.Revision(writers*transactions/4))
	require.Zero(t, storetest.Value[int](db, "SELECT count(*) FROM mesh_internal.transactions WHERE revision IS NULL OR pending"))
	require.Zero(t, storetest.Value[int64](db, "SELECT adopted FROM mesh.adopt()"), "none came around the triggers")
	t.Logf("%d transactions, %d revisions, %d followers, %d snapshots", writers*transactions, last, follower.lives, len(watch.taken))
}

// write runs the writers and returns what they know to be committed.
func write(t *testing.T, url string, seed uint64, writers, transactions int, watch *observer) (done []committed) {
	t.Helper()
	var clock atomic.Int64
	all := make([]*writer, writers)
	var group errgroup.Group
	for i := range all {
		all[i] = &writer{name: fmt.Sprint("w", i), url: url, clock: &clock, observer: watch, dice: rand.New(rand.NewPCG(seed, uint64(i+2)))}
		group.Go(func() error { return all[i].run(context.Background(), transactions) })
	}
	require.NoError(t, group.Wait())
	for _, w := range all {
		done = append(done, w.done...)
	}
	return done
}

// inOrderOfCommit checks that of two transactions, one of which began after the other had ended,
// the later has the higher number.
func inOrderOfCommit(t *testing.T, batches []feed.Batch, done []committed) {
	t.Helper()
	known := map[string]committed{}
	for _, c := range done {
		known[c.message] = c
	}
	earliest := committed{end: math.MaxInt64} // of those with higher numbers
	for _, b := range slices.Backward(batches) {
		c, ok := known[b.Message]
		if !ok {
			continue
		}
		require.Less(t, c.begun, earliest.end, "%s began after %s had ended, and has a lower number", c.message, earliest.message)
		if c.end < earliest.end {
			earliest = c
		}
	}
}

// mortalFollower follows with one Store after the other, each from where the one before it died.
type mortalFollower struct {
	url     string
	dice    *rand.Rand
	lives   int
	at      feed.Position
	batches []feed.Batch
	seen    atomic.Int64
	news    chan struct{}
}

var errDied = errors.New("died")

func (f *mortalFollower) run(ctx context.Context) error {
	for ctx.Err() == nil {
		f.lives++
		s, err := store.Open(ctx, f.url, store.Options{})
		if err == nil {
			err = f.live(ctx, s)
			s.Close()
		}
		if ctx.Err() == nil && !errors.Is(err, errDied) {
			return err
		}
	}
	return nil
}

// live follows for a while. What it took before it died it has; what it was given as it died comes
// again.
func (f *mortalFollower) live(ctx context.Context, s *store.Store) error {
	left := 1 + f.dice.IntN(60)
	revisions, err := feed.New(s, feed.Options{})
	if err != nil {
		return err
	}
	return revisions.Follow(ctx, f.at, func(b feed.Batch) error {
		if left--; left == 0 {
			return errDied
		}
		f.batches, f.at = append(f.batches, b), b.Position()
		f.seen.Store(b.Revision)
		select {
		case f.news <- struct{}{}:
		default:
		}
		return nil
	})
}

// reach returns when the follower has seen a revision.
func (f *mortalFollower) reach(r store.Revision) error {
	timeout := time.After(time.Minute)
	for f.seen.Load() < r {
		select {
		case <-f.news:
		case <-timeout:
			return fmt.Errorf("the follower has seen revision %d and there is %d", f.seen.Load(), r)
		}
	}
	return nil
}

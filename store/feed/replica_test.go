package feed_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/resources"
)

func openReplica(t *testing.T, url, replica string) *feed.Feed {
	t.Helper()
	return storetest.FeedWith(t, storetest.OpenURL(t, url), feed.Options{Replica: replica, StandbyPoll: 5 * time.Millisecond})
}

func TestStandbyIsFollowedAndSoIsWhatItBecomes(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	s := openReplica(t, pair.Primary.URL, pair.Standby.URL)
	batches := storetest.Follow(t, s, 0)
	db := storetest.Connect(t, pair.Primary.URL)
	for i := range int64(3) {
		db.Put("x", string(rune('a'+i)))
		require.Equal(t, i+1, (<-batches).Revision)
	}
	require.True(t, s.Status().Standby)
	rows, at := storetest.Tables(t, s)
	require.Equal(t, store.Revision(3), at)
	require.Len(t, rows, 1)

	pair.Primary.Kill()
	pair.Promote()
	storetest.Connect(t, pair.Standby.URL).Put("x", "promoted")
	require.Equal(t, store.Revision(4), (<-batches).Revision)
	storetest.Connect(t, pair.Standby.URL).Put("x", "notified")
	require.Equal(t, store.Revision(5), (<-batches).Revision)
	require.Zero(t, s.Status().Losses, "the connection has outlived the promotion")
}

// A standby may be behind what was read elsewhere, and what it has not got yet is not lost.
func TestStandbyThatLagsIsWaitedFor(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	db := storetest.Connect(t, pair.Primary.URL)
	db.Put("x", "a")
	pair.CaughtUp()
	pair.Standby.Exec("SELECT pg_wal_replay_pause()")
	db.Put("x", "b")
	at, err := storetest.Feed(t, storetest.OpenURL(t, pair.Primary.URL)).Snapshot(t.Context(), func(*store.Resource) error { return nil })
	require.NoError(t, err)
	require.Equal(t, store.Revision(2), at.Revision)

	batches := make(chan feed.Batch)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := openReplica(t, pair.Primary.URL, pair.Standby.URL)
	go func() {
		ended <- s.Follow(ctx, at, func(b feed.Batch) error { batches <- b; return nil })
	}()
	db.Put("x", "c")
	pair.Standby.Exec("SELECT pg_wal_replay_resume()")
	require.Equal(t, store.Revision(3), (<-batches).Revision)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// With synchronous replication nothing that was acknowledged is lost, and nothing that was seen is
// taken back.
func TestFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	pair.Synchronous()
	s := openReplica(t, pair.URL("read-write"), pair.URL("any"))
	batches := storetest.Follow(t, s, 0)

	var acknowledged []string // there is no telling how many, for the writer may be far ahead of who follows
	ctx, stop := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() {
		written <- keepWriting(ctx, pair.URL("read-write"), func(message string) { acknowledged = append(acknowledged, message) })
	}()
	t.Cleanup(stop)

	followed, seen := storetest.State{}, map[string]bool{}
	at := store.Revision(0)
	take := func() {
		b := <-batches
		require.Equal(t, at+1, b.Revision, "every revision, once, in order")
		followed.Apply(t, b)
		seen[b.Message], at = true, b.Revision
	}
	for at < 20 {
		take()
	}
	pair.Primary.Kill()
	pair.Promote()
	for end := at + 20; at < end; {
		take()
	}
	stop()
	require.NoError(t, <-written)
	want, last := storetest.Tables(t, storetest.Feed(t, storetest.OpenURL(t, pair.Standby.URL)))
	for at < last {
		take()
	}
	require.Empty(t, cmp.Diff(want, followed))
	for _, message := range acknowledged {
		require.True(t, seen[message], "%s was acknowledged", message)
	}
	require.Greater(t, len(acknowledged), 30)
	require.GreaterOrEqual(t, s.Status().Losses, int64(1))
}

// keepWriting commits one transaction after the other, each of two resources, on whichever server
// takes them.
func keepWriting(ctx context.Context, url string, acknowledged func(message string)) error {
	var conn *pgx.Conn
	for i := 0; ctx.Err() == nil; i++ {
		if conn == nil || conn.IsClosed() {
			if conn, _ = pgx.Connect(ctx, url); conn == nil {
				continue
			}
		}
		message := fmt.Sprint("change ", i)
		_, err := conn.Exec(context.Background(), fmt.Sprintf(`SET mesh.message = '%[1]s';
			INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', 'a', '%[2]s'), ('VirtualService', 'b', '%[2]s')
			ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, message, storetest.VirtualService(fmt.Sprint("h", i))))
		if err == nil {
			acknowledged(message)
		}
	}
	if conn != nil {
		return conn.Close(context.Background())
	}
	return nil
}

// With asynchronous replication the newest revisions may be lost with the primary. Whoever has seen
// them is told, also when the database has got as far again by other changes.
func TestLostRevisionsAreReported(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	s := openReplica(t, pair.URL("read-write"), pair.URL("read-write"))
	db := storetest.Connect(t, pair.Primary.URL)
	db.Put("x", "kept")
	pair.CaughtUp()
	pair.Sever()

	ended, seen := make(chan error, 1), make(chan feed.Batch, 10)
	go func() {
		ended <- s.Follow(t.Context(), feed.At(0), func(b feed.Batch) error { seen <- b; return nil })
	}()
	kept := <-seen
	db.Put("x", "lost")
	lost := <-seen
	db.Put("x", "lost-too")
	lostToo := <-seen

	pair.Primary.Kill()
	pair.Promote()
	require.ErrorIs(t, <-ended, feed.ErrTooOld)
	rows, at := storetest.Tables(t, s)
	require.Equal(t, store.Revision(1), at)
	require.Contains(t, string(rows[storetest.Key(t, "x")].Spec), "kept")

	promoted := storetest.Connect(t, pair.Standby.URL)
	for _, host := range []string{"other", "another", "yet-another"} {
		promoted.Put("x", host)
	}
	none := func(feed.Batch) error { t.Error("a batch of another history"); return nil }
	for _, position := range []feed.Position{lost.Position(), lostToo.Position()} {
		require.ErrorIs(t, s.Follow(t.Context(), position, none), feed.ErrTooOld)
	}
	enough := context.Canceled
	require.ErrorIs(t, s.Follow(t.Context(), kept.Position(), func(b feed.Batch) error {
		require.Equal(t, store.Revision(2), b.Revision)
		require.Contains(t, string(b.Changes[0].After.Spec), "other")
		return enough
	}), enough)
}

func TestWritingToAStandbySaysWhatHelps(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	s := storetest.OpenURL(t, pair.Standby.URL)
	_, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: storetest.Key(t, "x"), Spec: storetest.VirtualService("a")}}})
	require.ErrorContains(t, err, "target_session_attrs=read-write")
}

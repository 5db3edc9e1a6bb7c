package feed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

func TestFollowOutlivesItsBackend(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	batches := storetest.Follow(t, s, 0)
	for i := range int64(5) {
		db.Put("x", string(rune('a'+i)))
		require.Equal(t, i+1, (<-batches).Revision)
		db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgmesh feed' AND datname = current_database()`)
	}
	db.Put("x", "z")
	require.Equal(t, store.Revision(6), (<-batches).Revision)
	require.GreaterOrEqual(t, s.Status().Losses, int64(1))
	require.True(t, s.Status().Connected)
}

func TestFollowOutlivesTheServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	s := storetest.Feed(t, storetest.OpenURL(t, server.URL))
	batches := storetest.Follow(t, s, 0)
	before := storetest.Connect(t, server.URL)
	before.Put("x", "a")
	require.Equal(t, store.Revision(1), (<-batches).Revision)

	before.Put("x", "b")
	server.Kill()
	server.Start()
	require.Equal(t, store.Revision(2), (<-batches).Revision)
	storetest.Connect(t, server.URL).Put("x", "c")
	require.Equal(t, store.Revision(3), (<-batches).Revision)
}

// A server that is away is lost once, however often it is tried.
func TestTriesAreNoLosses(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	failed := make(chan error, 1000)
	s := storetest.FeedWith(t, storetest.OpenURL(t, server.URL), feed.Options{Followed: func(err error) {
		if err != nil {
			failed <- err
		}
	}})
	batches := storetest.Follow(t, s, 0)
	storetest.Connect(t, server.URL).Put("x", "a")
	require.Equal(t, store.Revision(1), (<-batches).Revision)
	require.Zero(t, s.Status().Losses)
	server.Kill()
	for range 3 {
		<-failed
	}
	require.Equal(t, int64(1), s.Status().Losses)
	server.Start()
	storetest.Connect(t, server.URL).Put("x", "b")
	require.Equal(t, store.Revision(2), (<-batches).Revision)
	require.Equal(t, int64(1), s.Status().Losses)
}

// What a pooler between us and the server may swallow.
func TestPollCoversLostNotifications(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec(`DO $$ BEGIN EXECUTE replace(pg_get_functiondef('mesh_internal.number_transaction'::regproc), 'pg_notify(', 'concat('); END $$`)
	require.NotContains(t, storetest.Value[string](db, "SELECT pg_get_functiondef('mesh_internal.number_transaction'::regproc)"), "pg_notify", "nothing is told of")
	batches := storetest.Follow(t, storetest.FeedWith(t, storetest.OpenURL(t, url), feed.Options{Poll: 20 * time.Millisecond}), 0)
	for i := range int64(3) {
		db.Put("x", string(rune('a'+i)))
		require.Equal(t, i+1, (<-batches).Revision)
	}
}

func TestFollowReportsThatHistoryIsGone(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	for _, host := range []string{"a", "b", "c", "d"} {
		db.Put("x", host)
	}
	require.Equal(t, int64(2), storetest.Value[int64](db, "SELECT mesh.prune(2)"))
	none := func(feed.Batch) error { t.Error("a batch"); return nil }
	require.ErrorIs(t, s.Follow(t.Context(), feed.At(1), none), feed.ErrTooOld)
	require.ErrorIs(t, s.Follow(t.Context(), feed.At(7), none), feed.ErrTooOld, "the database was restored")

	require.Equal(t, store.Revision(3), (<-storetest.Follow(t, s, 2)).Revision)
	require.Equal(t, int64(1), storetest.Value[int64](db, "SELECT mesh.prune(99)"), "the newest revision stays")
	db.Put("x", "e")
	require.Equal(t, int64(5), db.Newest())
}

// A database that is restored under a connection, which stays, goes back to a revision that was seen, and
// may go on to others with the numbers of those that were seen.
func TestFollowReportsThatTheDatabaseWentBack(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]int{"it is behind": 1, "it is as far": 2, "it is further": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t)
			db := storetest.Connect(t, url)
			db.Put("x", "a")
			seen := make(chan feed.Batch, 10)
			ended := make(chan error, 1)
			f := storetest.FeedWith(t, storetest.OpenURL(t, url), feed.Options{Poll: 20 * time.Millisecond})
			go func() {
				ended <- f.Follow(t.Context(), feed.At(0), func(b feed.Batch) error { seen <- b; return nil })
			}()
			for _, host := range []string{"b", "c"} {
				<-seen
				db.Put("x", host)
			}
			<-seen
			db.Exec("BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM mesh_internal.changes; DELETE FROM mesh_internal.transactions WHERE revision > 1")
			for i := range restored {
				db.Exec("INSERT INTO mesh_internal.transactions (xid, begun_at, revision, pending, secrets, time) SELECT xid, clock_timestamp(), $1, false, true, now() FROM mesh_internal.transactions WHERE revision = 1", i+2)
			}
			db.Exec("COMMIT")
			err := <-ended
			require.ErrorIs(t, err, feed.ErrTooOld)
			require.ErrorContains(t, err, "revision 3 was seen and the database does not have it")
			require.Empty(t, seen)
		})
	}
}

func TestFollowEndsWithItsCallersError(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	storetest.Connect(t, url).Put("x", "a")
	failure := context.DeadlineExceeded
	require.Equal(t, failure, s.Follow(t.Context(), feed.At(0), func(feed.Batch) error { return failure }))
}

// A newer program may have written kinds that this one has never heard of.
func TestUnknownKindsAreLeftOutAndReported(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec("SELECT mesh_internal.begin_own_work('registry'); INSERT INTO mesh.kinds SELECT api_group, 'Novelty', 'novelties', '{}', versions, namespaced, type FROM mesh.kinds WHERE kind = 'VirtualService'")
	skipped := make(chan store.Skipped, 10)
	known, err := store.Open(t.Context(), url, store.Options{Skipped: func(s store.Skipped) { skipped <- s }})
	require.NoError(t, err)
	t.Cleanup(known.Close)
	s := storetest.Feed(t, known)
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('Novelty', 'x', '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}'), ('VirtualService', 'x', '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}')`)

	b := <-storetest.Follow(t, s, 0)
	require.Len(t, b.Changes, 1)
	require.Equal(t, store.Skipped{Group: "networking.istio.io", Kind: "Novelty", Namespace: "default", Name: "x", Revision: 1}, <-skipped)
	rows, _ := storetest.Tables(t, s)
	require.Len(t, rows, 1)
	require.Contains(t, rows, storetest.Key(t, "x"))
}

func TestLargeBatchesStayWhole(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("first", "a")
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'vs-' || i, '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}' FROM generate_series(1, 6000) i`)
	db.Put("last", "a")
	batches := storetest.Follow(t, s, 0)
	require.Len(t, (<-batches).Changes, 1)
	require.Len(t, (<-batches).Changes, 6000)
	require.Len(t, (<-batches).Changes, 1)
}

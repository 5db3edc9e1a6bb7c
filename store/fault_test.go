package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

func TestFollowOutlivesItsBackend(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	batches := follow(t, s, 0)
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
	s := openURL(t, server.URL)
	batches := follow(t, s, 0)
	before := connect(t, server.URL)
	before.Put("x", "a")
	require.Equal(t, store.Revision(1), (<-batches).Revision)

	before.Put("x", "b")
	server.Kill()
	server.Start()
	require.Equal(t, store.Revision(2), (<-batches).Revision)
	connect(t, server.URL).Put("x", "c")
	require.Equal(t, store.Revision(3), (<-batches).Revision)
}

// What a pooler between us and the server may swallow.
func TestPollCoversLostNotifications(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	db.Exec(`DO $$ BEGIN EXECUTE replace(pg_get_functiondef('mesh.number_transaction'::regproc), 'pg_notify(', 'concat('); END $$`)
	require.NotContains(t, value[string](db, "SELECT pg_get_functiondef('mesh.number_transaction'::regproc)"), "pg_notify", "nothing is told of")
	s, err := store.Open(t.Context(), url, store.Options{Poll: 20 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	batches := follow(t, s, 0)
	for i := range int64(3) {
		db.Put("x", string(rune('a'+i)))
		require.Equal(t, i+1, (<-batches).Revision)
	}
}

func TestFollowReportsThatHistoryIsGone(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	for _, host := range []string{"a", "b", "c", "d"} {
		db.Put("x", host)
	}
	require.Equal(t, int64(2), value[int64](db, "SELECT mesh.prune(2)"))
	none := func(store.Batch) error { t.Error("a batch"); return nil }
	require.ErrorIs(t, s.Follow(t.Context(), store.At(1), none), store.ErrTooOld)
	require.ErrorIs(t, s.Follow(t.Context(), store.At(7), none), store.ErrTooOld, "the database was restored")

	require.Equal(t, store.Revision(3), (<-follow(t, s, 2)).Revision)
	require.Equal(t, int64(1), value[int64](db, "SELECT mesh.prune(99)"), "the newest revision stays")
	db.Put("x", "e")
	require.Equal(t, int64(5), db.Newest())
}

func TestFollowEndsWithItsCallersError(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	connect(t, url).Put("x", "a")
	failure := context.DeadlineExceeded
	require.Equal(t, failure, s.Follow(t.Context(), store.At(0), func(store.Batch) error { return failure }))
}

// A newer program may have written kinds that this one has never heard of.
func TestUnknownKindsAreLeftOutAndReported(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	db.Exec("INSERT INTO mesh.kinds SELECT api_group, 'Novelty', 'novelties', '{}', versions, namespaced, type FROM mesh.kinds WHERE kind = 'VirtualService'")
	skipped := make(chan store.Skipped, 10)
	s, err := store.Open(t.Context(), url, store.Options{Skipped: func(s store.Skipped) { skipped <- s }})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('Novelty', 'x', '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}'), ('VirtualService', 'x', '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}')`)

	b := <-follow(t, s, 0)
	require.Len(t, b.Changes, 1)
	require.Equal(t, store.Skipped{Group: "networking.istio.io", Kind: "Novelty", Namespace: "default", Name: "x", Revision: 1}, <-skipped)
	known, _ := tables(t, s)
	require.Len(t, known, 1)
	require.Contains(t, known, vs(t, "x"))
}

func TestLargeBatchesStayWhole(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Put("first", "a")
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'vs-' || i, '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}' FROM generate_series(1, 6000) i`)
	db.Put("last", "a")
	batches := follow(t, s, 0)
	require.Len(t, (<-batches).Changes, 1)
	require.Len(t, (<-batches).Changes, 6000)
	require.Len(t, (<-batches).Changes, 1)
}

func TestConnectionErrorsSayWhatHelps(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), "postgres://u:secret@127.0.0.1:1/db", store.Options{})
	require.ErrorContains(t, err, "nothing listens at that address")
	require.NotContains(t, err.Error(), "secret")

	_, err = store.Open(t.Context(), pgtest.Empty(t), store.Options{})
	require.ErrorContains(t, err, "run mcp-server migrate up")
}

func gateway(t *testing.T) kinds.Key {
	t.Helper()
	kind, ok := kinds.Lookup("gateway.networking.k8s.io", "Gateway")
	require.True(t, ok)
	return kinds.Key{Kind: kind, Namespace: "default", Name: "x"}
}

// A machine that crashes says no good-bye, unlike a server that is stopped.
func TestFailuresOfTheServerAreTemporary(t *testing.T) {
	t.Parallel()
	own := pgtest.Server(t)
	config, err := pgx.ParseConfig(own.URL)
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	failed := make(chan error, 1)
	begun := connect(t, own.URL)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)")
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return value[bool](begun, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)')")
	}, 20*time.Second, 5*time.Millisecond)
	own.Kill()
	err = <-failed
	require.True(t, store.Temporary(err), "%v", err)
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.True(t, store.Temporary(err), "%v", err)
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.True(t, store.Temporary(err), "%v", err)
}

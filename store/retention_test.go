package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// kept is the range of revisions that the history has.
func (s session) kept() (oldest, newest int64) {
	s.T.Helper()
	require.Equal(s.T, value[int64](s, "SELECT min(revision) FROM mesh.revisions"), value[int64](s, "SELECT mesh.oldest_revision()"))
	require.Zero(s.T, value[int](s, "SELECT count(*) FROM mesh_internal.changes c WHERE NOT EXISTS (SELECT FROM mesh_internal.transactions t WHERE t.id = c.transaction_id)"))
	return value[int64](s, "SELECT mesh.oldest_revision()"), s.Newest()
}

func TestRetentionByCount(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for i := range 20 {
		db.Put("x", fmt.Sprint("h", i))
	}
	require.Zero(t, value[int64](db, "SELECT mesh.prune_expired()"), "by default history is kept for long")
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('history_max_revisions', '5')")
	require.Equal(t, int64(6), value[int64](db, "SELECT mesh.prune_expired(6)"), "in small batches")
	require.Equal(t, int64(6), value[int64](db, "SELECT mesh.prune_expired(6)"))
	require.Equal(t, int64(3), value[int64](db, "SELECT mesh.prune_expired(6)"))
	require.Zero(t, value[int64](db, "SELECT mesh.prune_expired(6)"))
	oldest, newest := db.kept()
	require.Equal(t, []int64{16, 20}, []int64{oldest, newest})
	require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh.as_of(15)"))
	require.Equal(t, "MS004", db.Refused("SELECT * FROM mesh.as_of(14)").Code)
	db.Exec("UPDATE mesh.settings SET value = '1'")
	db.Exec("SELECT mesh.prune_expired()")
	oldest, newest = db.kept()
	require.Equal(t, []int64{20, 20}, []int64{oldest, newest}, "the newest stays")
	db.Put("x", "more")
	require.Equal(t, int64(21), db.Newest())
}

func TestRetentionByAge(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for i := range 10 {
		db.Put("x", fmt.Sprint("h", i))
	}
	db.Exec("UPDATE mesh_internal.transactions SET time = time - interval '100 days' + revision * interval '1 hour' WHERE revision <= 6")
	require.Equal(t, int64(6), value[int64](db, "SELECT mesh.prune_expired()"))
	require.Zero(t, value[int64](db, "SELECT mesh.prune_expired()"))
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('history_max_age', '1 microsecond')")
	require.Equal(t, int64(3), value[int64](db, "SELECT mesh.prune_expired()"))
	oldest, _ := db.kept()
	require.Equal(t, int64(10), oldest)
}

// A batch holds locks for as long as its changes take, so it is counted in changes.
func TestBatchesAreCountedInChanges(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for i := range 4 {
		db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', format('vs-%s-%s', $1::int, n), '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}' FROM generate_series(1, 30) n`, i)
	}
	db.Put("last", "a")
	require.Equal(t, int64(2), value[int64](db, "SELECT mesh.prune(99, 50)"))
	require.Equal(t, int64(1), value[int64](db, "SELECT mesh.prune(99, 1)"), "a revision goes whole")
	require.Equal(t, int64(1), value[int64](db, "SELECT mesh.prune(99)"))
	require.Zero(t, value[int64](db, "SELECT mesh.prune(99)"))
	require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh_internal.changes"))
}

func TestPruningKeepsRevisionsThatMayBeReverted(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	db.unconfirmed(setHost("x", "b"))
	waiting := db.unconfirmed(setHost("y", "b"))
	for i := range 5 {
		db.Put("z", fmt.Sprint("h", i))
	}
	db.Exec("SELECT mesh.confirm(2)")
	require.Equal(t, waiting-1, value[int64](db, "SELECT mesh.prune(99)"))
	require.Equal(t, []int64{waiting}, collect[int64](db, "SELECT revision FROM mesh.confirmations"), "with the history goes what came of it")
	require.Equal(t, "reverted", db.expire(waiting))
	require.Equal(t, int64(6), value[int64](db, "SELECT mesh.prune(99)"))
	require.Empty(t, collect[int64](db, "SELECT revision FROM mesh.confirmations"))
}

func TestOnlyServersAndOwnersPrune(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	writer := y.tenant("writer", [2]string{"*", "write"})
	require.Equal(t, "42501", writer.Refused("SELECT mesh.prune(99)").Code)
	require.Equal(t, "42501", writer.Refused("SELECT mesh.prune_expired()").Code)
}

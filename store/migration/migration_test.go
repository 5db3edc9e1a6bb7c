package migration_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migration"
)

func TestMigrationsGoUpAndDown(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	require.NoError(t, migration.Up(t.Context(), url))
	status, err := migration.ReadStatus(t.Context(), url)
	require.NoError(t, err)
	require.True(t, status.Fits())
	list := status.Migrations
	for _, m := range list {
		require.False(t, m.Applied.IsZero())
	}
	for i := len(list) - 2; i >= 0; i-- {
		require.NoError(t, migration.Down(t.Context(), url, list[i].Version, storetest.Quietly))
	}
	require.NoError(t, migration.Down(t.Context(), url, 0, storetest.Quietly))
	require.False(t, storetest.Value[bool](storetest.Connect(t, url), "SELECT to_regnamespace('mesh') IS NOT NULL"))

	require.NoError(t, migration.Up(t.Context(), url))
	storetest.Connect(t, url).Put("x", "a")
}

func TestNothingIsWrittenBetweenVersions(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	newest := storetest.Value[int64](db, "SELECT max(version_id) FROM mesh.schema_version")
	require.NoError(t, migration.Down(t.Context(), url, newest-1, storetest.Quietly))
	err := db.Refused("DELETE FROM mesh.resources")
	require.Equal(t, "MS003", err.Code)
	require.Contains(t, err.Hint, "migrate up")
	require.ErrorContains(t, migration.Down(t.Context(), url, newest, storetest.Quietly), "no way down")

	require.NoError(t, migration.Up(t.Context(), url))
	db.Put("x", "b")
	require.Equal(t, int64(2), db.Newest())
}

// What people build on the views and functions survives a newer program, and is never dropped by
// one that goes back.
func TestDependentsOfTheViewsAreKept(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec("CREATE VIEW authors AS SELECT DISTINCT author FROM mesh.revisions")
	db.Exec("UPDATE mesh_internal.installation SET code_digest = ''")
	require.NoError(t, migration.Up(t.Context(), url))
	db.Put("x", "a")
	require.Equal(t, 1, storetest.Value[int](db, "SELECT count(*) FROM authors"))
	require.ErrorContains(t, migration.Down(t.Context(), url, 1, storetest.Quietly), "view authors depends on view mesh.revisions")
	db.Put("x", "b")
}

func TestMigratingAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	var group errgroup.Group
	for range 3 {
		group.Go(func() error { return migration.Up(context.Background(), url) })
	}
	require.NoError(t, group.Wait())
	storetest.Connect(t, url).Put("x", "a")
}

// Who could not migrate holds up nobody who does, at the first time or later; who could is waited
// for.
func TestMigrationsWaitForNobodyWhoCouldNot(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	owner := storetest.Connect(t, url)
	y := storetest.Tenancy{Owner: owner, URL: url}
	stranger := y.As(y.Role("stranger"))
	stranger.Exec("SELECT pg_advisory_lock(1835365224, n) FROM generate_series(0, 9) n")
	var told lines
	for range 2 {
		var group errgroup.Group
		for range 3 {
			group.Go(func() error { return migration.UpTelling(context.Background(), url, told.add) })
		}
		require.NoError(t, group.Wait())
		require.Contains(t, told.String(), "could not: going on without it")
		owner.Exec("UPDATE mesh_internal.installation SET code_digest = ''")
	}
	status, err := migration.ReadStatus(t.Context(), url)
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, migration.WriteScript(&text, status.Migrations[len(status.Migrations)-1].Version))
	script := strings.ReplaceAll(text.String(), "\\set ON_ERROR_STOP on", "")
	owner.Exec(script)
	stranger.Exec("SELECT pg_advisory_unlock_all()")

	owner.Exec("SELECT pg_advisory_lock(1835365224, 2)")
	require.Contains(t, storetest.Connect(t, url).Refused(script).Message, "a program migrates this database")
	waiting, done := lines{heard: make(chan struct{})}, make(chan error, 1)
	go func() { done <- migration.UpTelling(context.Background(), url, waiting.add) }()
	<-waiting.heard
	require.Contains(t, waiting.String(), "which migrates")
	owner.Exec("SELECT pg_advisory_unlock_all()")
	require.NoError(t, <-done)
}

// lines are what was told, by several at once.
type lines struct {
	mu    sync.Mutex
	text  strings.Builder
	heard chan struct{} // closed at the first, if there is one
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() == 0 && l.heard != nil {
		close(l.heard)
	}
	l.text.WriteString(line + "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	storetest.Connect(t, url).Exec("INSERT INTO mesh.schema_version (version_id, is_applied) VALUES (1000, true)")
	require.ErrorIs(t, migration.Up(t.Context(), url), store.ErrSchema)
	_, err := store.Open(t.Context(), url, store.Options{})
	require.ErrorIs(t, err, store.ErrSchema)
	require.ErrorContains(t, err, "run a newer program")
}

// A dump has the triggers after the data, so numbers and times come back as they were.
func TestNumbersGoOnAfterTheTablesWereCopied(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Exec("UPDATE mesh_internal.transactions SET xid = pg_current_xact_id(), begun_at = '2000-01-01'")
	db.Put("x", "b")
	require.Equal(t, int64(2), db.Newest())
}

// Set PGMESH_TEST_DATABASE_URL to run the whole package against another server.
func TestMigrateKeepsToItsSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	db := storetest.Connect(t, url)
	count := "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname NOT IN ('mesh', 'mesh_internal', 'pg_toast')"
	before := storetest.Value[int](db, count)
	require.NoError(t, migration.Up(t.Context(), url))
	require.Equal(t, before, storetest.Value[int](db, count), fmt.Sprint("also on ", os.Getenv(pgtest.URLVariable)))
}

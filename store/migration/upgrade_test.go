package migration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migration"
)

// differ makes the database one of an older program, whose functions and kinds are others.
const differ = "UPDATE mesh_internal.installation SET code_digest = 'old', registry_digest = 'old'"

// A newer program migrates while older ones write, read and follow. They wait for moments; none of
// them fails.
func TestMigratingBesideAMeshInUse(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	followed := storetest.Follow(t, storetest.Feed(t, storetest.OpenURL(t, url)), 1)

	ctx, cancel := context.WithCancel(t.Context())
	traffic, ctx := errgroup.WithContext(ctx)
	var commits atomic.Int64
	var last store.Revision // that has come
	for i := range 2 {
		traffic.Go(func() error { return use(ctx, url, i, &commits) })
	}
	for range 2 {
		db.Exec(differ)
		require.NoError(t, migration.Up(t.Context(), url))
		before := commits.Load()
		for commits.Load() < before+3 && ctx.Err() == nil { // they go on
			select {
			case b := <-followed:
				last = b.Revision
			case <-ctx.Done():
			}
		}
	}
	cancel()
	require.NoError(t, traffic.Wait())
	for newest := db.Newest(); last < newest; { // the newest may have come already
		b, open := <-followed
		require.True(t, open)
		last = b.Revision
	}
}

// use reads views and writes, in one transaction, over and over. One storetest.Session reads first
// and another last, so they take their locks in different orders. Production looks for deadlocks
// after a second, the servers of tests sooner.
func use(ctx context.Context, url string, i int, commits *atomic.Int64) error {
	conn, err := pgx.Connect(context.WithoutCancel(ctx), url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(context.WithoutCancel(ctx), "SET deadlock_timeout = '1s'"); err != nil {
		return err
	}
	for n := 0; ctx.Err() == nil; n++ {
		statements := []string{
			// Some of the history: were it all, they would take longer the longer the migration
			// waits for a moment without them.
			"SELECT count(*) FROM (SELECT FROM mesh.revisions LIMIT 5) r", "SELECT count(*) FROM (SELECT FROM mesh.history LIMIT 5) h",
			fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, labels, spec) VALUES ('VirtualService', 'used-%d', '{"n": "%d"}', '%s')
				ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET labels = EXCLUDED.labels`, i, n, storetest.VirtualService("a")),
		}
		if i%2 == 0 {
			slices.Reverse(statements)
		}
		if _, err := conn.Exec(context.WithoutCancel(ctx), "BEGIN; "+strings.Join(statements, "; ")+"; COMMIT"); err != nil {
			return fmt.Errorf("after %d commits: %w", n, err)
		}
		commits.Add(1)
	}
	return nil
}

// Who holds a table for long holds up the migration, and nobody else.
func TestMigrationWaitsAndLetsOthersPass(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	slow, quick := storetest.Connect(t, url+"&application_name=report"), storetest.Connect(t, url)
	slow.Exec("BEGIN")
	slow.Exec("SELECT * FROM mesh.history")
	quick.Exec(differ)
	told := make(chan string, 1000)
	done := make(chan error, 1)
	go func() {
		done <- migration.UpTelling(context.Background(), url, func(line string) { told <- line })
	}()
	for i := range 2 {
		line := <-told
		require.Contains(t, line, "waiting for others who use the tables")
		require.Contains(t, line, "report")
		quick.Put(fmt.Sprintf("x%d", i), "a")
	}
	slow.Exec("COMMIT")
	require.NoError(t, <-done)
	close(told)
	var lines []string
	for line := range told {
		lines = append(lines, line)
	}
	require.Contains(t, strings.Join(lines, "\n"), "installed the functions, views and triggers")
	require.Contains(t, strings.Join(lines, "\n"), "wrote the kinds and rules")
	quick.Put("y", "a")
}

func TestSchemaStatus(t *testing.T) {
	t.Parallel()
	empty, err := migration.ReadStatus(t.Context(), pgtest.Empty(t))
	require.NoError(t, err)
	require.Zero(t, empty.Newest)
	require.False(t, empty.Fits())

	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec(differ)
	old, err := migration.ReadStatus(t.Context(), url)
	require.NoError(t, err)
	require.False(t, old.Fits() || old.Code || old.Registry || old.TooNew())
	db.Exec("INSERT INTO mesh.schema_version (version_id, is_applied) VALUES (1000, true)")
	newer, err := migration.ReadStatus(t.Context(), url)
	require.NoError(t, err)
	require.True(t, newer.TooNew())
}

// What programs do, a DBA can do by hand.
func TestMigrationScript(t *testing.T) {
	t.Parallel()
	for _, from := range []int64{0, 6} {
		url := pgtest.Empty(t)
		db := storetest.Connect(t, url)
		if from > 0 {
			require.NoError(t, migration.Up(t.Context(), url))
			require.NoError(t, migration.Down(t.Context(), url, from, storetest.Quietly))
		}
		psql := db.Program("psql")
		var script strings.Builder
		require.NoError(t, migration.WriteScript(&script, from))
		storetest.Run(t, []byte(script.String()), psql, "-qX", "-d", url)
		status, err := migration.ReadStatus(t.Context(), url)
		require.NoError(t, err)
		require.True(t, status.Fits())
		migrated := storetest.Connect(t, pgtest.New(t))
		for _, table := range []string{"mesh.kinds", "mesh_internal.schema_types", "mesh.schema_fields", "mesh_internal.schema_parts", "mesh.rules", "mesh.formats", "mesh_internal.editable_columns"} {
			all := fmt.Sprintf("SELECT md5(string_agg(r::text, ' ' ORDER BY r::text)) FROM %s r", table)
			require.Equal(t, storetest.Value[string](migrated, all), storetest.Value[string](db, all), table)
		}
		requireSameObjects(t, migrated, db)
		db.Put("x", "a")
	}
	require.ErrorContains(t, migration.WriteScript(&strings.Builder{}, 1000), "no way from version 1000")
}

// requireSameObjects compares what two databases have in the schemas of the mesh.
func requireSameObjects(t *testing.T, one, other storetest.Session) {
	t.Helper()
	const objects = `SELECT string_agg(pg_describe_object(classid, objid, 0), E'\n' ORDER BY pg_describe_object(classid, objid, 0)) FROM (
		SELECT 'pg_proc'::regclass AS classid, oid AS objid FROM pg_proc WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
		UNION ALL SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND relkind IN ('r', 'v', 'i')) o`
	require.Equal(t, storetest.Value[string](one, objects), storetest.Value[string](other, objects))
}

package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/migration"
)

func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	y := newAviary(t)
	dump, restore, psql := y.owner.Program("pg_dump"), y.owner.Program("pg_restore"), y.owner.Program("psql")
	tenant := y.tenant("tenant")
	role := tenant.Conn.Config().User
	y.grant(role, "b", "read")
	seen := value[string](tenant, names)

	for _, c := range []struct {
		name      string
		format    []string
		restoring func(url string, dumped []byte)
	}{
		{"custom", []string{"-Fc"}, func(url string, dumped []byte) { storetest.Run(t, dumped, restore, "--exit-on-error", "-d", url) }},
		{"plain", []string{"-Fp"}, func(url string, dumped []byte) {
			storetest.Run(t, dumped, psql, "-qX", "-v", "ON_ERROR_STOP=1", "-d", url)
		}},
		{"without owners and privileges", []string{"-Fc", "--no-owner", "--no-privileges"}, func(url string, dumped []byte) {
			storetest.Run(t, dumped, restore, "--exit-on-error", "-d", url)
			require.Equal(t, []string{"grants " + role + " give nothing"}, collect[string](connect(t, url), whatDiffers))
			require.Equal(t, "run mcp-server migrate up, which grants them again", value[string](connect(t, url), "SELECT advice FROM mesh.check_installation()"))
			require.Equal(t, "42501", tenancy{connect(t, url), url}.as(role).Refused(names).Code)
			require.NoError(t, migration.Up(t.Context(), url)) // which grants again what the grants call for
		}},
	} {
		dumped := storetest.Run(t, nil, dump, append(c.format, "--schema=mesh", "--schema=mesh_internal", "-d", y.url)...)
		restored := tenancy{url: pgtest.Empty(t)}
		c.restoring(restored.url, dumped)
		restored.owner = connect(t, restored.url)
		requireSame(t, y, restored, c.name)
		require.Empty(t, collect[string](restored.owner, whatDiffers), c.name)
		restored.owner.Exec("ALTER TABLE mesh.resources DISABLE TRIGGER stamp_row")
		require.Equal(t, []string{"trigger mesh.resources.stamp_row is disabled"}, collect[string](restored.owner, whatDiffers), c.name)
		restored.owner.Exec("ALTER TABLE mesh.resources ENABLE TRIGGER stamp_row")
		require.Equal(t, seen, value[string](restored.as(role), names), c.name)
		status, err := migration.ReadStatus(t.Context(), restored.url)
		require.NoError(t, err)
		require.True(t, status.Fits(), c.name)
		goesOn(t, restored, y)
	}
}

// requireSame compares all tables.
func requireSame(t *testing.T, a, b tenancy, how string) {
	t.Helper()
	for _, table := range relations(a.owner, "r") {
		all := fmt.Sprintf("SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r::text), '') FROM %s r", table)
		require.Equal(t, value[string](a.owner, all), value[string](b.owner, all), "%s: %s", how, table)
	}
}

// goesOn uses a database that was restored, while the one that was dumped goes on too.
func goesOn(t *testing.T, restored, dumped tenancy) {
	t.Helper()
	last := restored.owner.Newest()
	dumped.owner.Put("elsewhere", "b")
	elsewhere := <-follow(t, openURL(t, dumped.url), last)

	followed := follow(t, openURL(t, restored.url), last)
	restored.owner.Put("new", "b")
	batch := <-followed
	require.Equal(t, last+1, batch.Revision)
	require.Len(t, batch.Changes, 1)
	require.Equal(t, "23514", restored.owner.Refused("UPDATE mesh.resources SET spec = '{\"x\": 1}' WHERE name = 'new'").Code)
	for _, at := range []feed.Position{elsewhere.Position(), feed.At(last + 2)} {
		err := storetest.Feed(t, openURL(t, restored.url)).Follow(t.Context(), at, func(feed.Batch) error { return nil })
		require.ErrorIs(t, err, feed.ErrTooOld, "a follower that knows of revisions after the dump is told")
	}
	dumped.owner.Exec("DELETE FROM mesh.resources WHERE name = 'elsewhere'")
}

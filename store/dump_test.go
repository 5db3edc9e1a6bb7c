package store_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// postgresProgram finds a program that came with the server, or skips the test.
func postgresProgram(t *testing.T, db session, name string) string {
	t.Helper()
	path := filepath.Join(value[string](db, "SELECT setting FROM pg_config WHERE name = 'BINDIR'"), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("this Postgres came without %s: %v", name, err)
	}
	return path
}

func runProgram(t *testing.T, in []byte, path string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(path, args...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &err
	require.NoError(t, cmd.Run(), "%s %s: %s", filepath.Base(path), strings.Join(args, " "), err.String())
	return out.Bytes()
}

func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	y := newAviary(t)
	dump, restore, psql := postgresProgram(t, y.owner, "pg_dump"), postgresProgram(t, y.owner, "pg_restore"), postgresProgram(t, y.owner, "psql")
	tenant := y.tenant("tenant")
	role := tenant.Conn.Config().User
	y.grant(role, "b", "read")
	seen := value[string](tenant, names)

	for _, c := range []struct {
		name      string
		format    []string
		restoring func(url string, dumped []byte)
	}{
		{"custom", []string{"-Fc"}, func(url string, dumped []byte) { runProgram(t, dumped, restore, "--exit-on-error", "-d", url) }},
		{"plain", []string{"-Fp"}, func(url string, dumped []byte) {
			runProgram(t, dumped, psql, "-qX", "-v", "ON_ERROR_STOP=1", "-d", url)
		}},
		{"without owners and privileges", []string{"-Fc", "--no-owner", "--no-privileges"}, func(url string, dumped []byte) {
			runProgram(t, dumped, restore, "--exit-on-error", "-d", url)
			require.Equal(t, "42501", tenancy{connect(t, url), url}.as(role).Refused(names).Code)
			require.NoError(t, store.Migrate(t.Context(), url)) // which grants again what the grants call for
		}},
	} {
		dumped := runProgram(t, nil, dump, append(c.format, "--schema=mesh", "-d", y.url)...)
		restored := tenancy{url: pgtest.Empty(t)}
		c.restoring(restored.url, dumped)
		restored.owner = connect(t, restored.url)
		requireSame(t, y, restored, c.name)
		require.Equal(t, seen, value[string](restored.as(role), names), c.name)
		status, err := store.ReadSchemaStatus(t.Context(), restored.url)
		require.NoError(t, err)
		require.True(t, status.Fits(), c.name)
		goesOn(t, restored, y)
	}
}

// requireSame compares all tables.
func requireSame(t *testing.T, a, b tenancy, how string) {
	t.Helper()
	for _, table := range relations(a.owner, "r") {
		all := fmt.Sprintf("SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r::text), '') FROM mesh.%s r", table)
		require.Equal(t, value[string](a.owner, all), value[string](b.owner, all), "%s: mesh.%s", how, table)
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
	require.Equal(t, "MS001", restored.owner.Refused("UPDATE mesh.resources SET spec = '{\"x\": 1}' WHERE name = 'new'").Code)
	for _, at := range []feed.Position{elsewhere.Position(), feed.At(last + 2)} {
		err := storetest.Feed(t, openURL(t, restored.url)).Follow(t.Context(), at, func(feed.Batch) error { return nil })
		require.ErrorIs(t, err, feed.ErrTooOld, "a follower that knows of revisions after the dump is told")
	}
	dumped.owner.Exec("DELETE FROM mesh.resources WHERE name = 'elsewhere'")
}

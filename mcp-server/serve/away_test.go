package serve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/migration"
)

// write commits one revision, which makes a ServiceEntry or changes its host.
func write(t *testing.T, database, name, host string) {
	t.Helper()
	execute(t, database, fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'default', '%s', '{"hosts": ["%s"],
		"ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}')
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, host))
}

func execute(t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// A server without its database serves its saved snapshot, says so everywhere, and continues when
// the database is back. A client that has everything is not sent anything again.
func TestAServerStartsWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	postgres, dir := pgtest.Server(t), t.TempDir()
	o := serve.Options{Database: postgres.URL, StateDir: dir}
	write(t, postgres.URL, "a", "a.example")
	write(t, postgres.URL, "b", "b.example")
	first := launch(t, o)
	c := connect(t, first.MCP.String(), nil)
	require.ElementsMatch(t, []string{"a", "b"}, c.until(2))
	mesh := c.standing(live).Mesh
	require.NotEmpty(t, mesh)
	c.stop()
	first.end()
	postgres.Stop()

	second := launch(t, o)
	again := connect(t, second.MCP.String(), c.held)
	require.Empty(t, again.until(2), "it is the same, byte for byte")
	told := again.standing(stale)
	require.True(t, told.Saved)
	require.Equal(t, mesh, told.Mesh)
	require.WithinDuration(t, time.Now(), told.Stale, time.Minute)
	code, text := second.get("/readyz")
	require.Equal(t, 200, code)
	require.Regexp(t, `^ready: serving revision 2, saved 20.*Z; .*connect`, text)
	_, text = second.get("/metrics")
	require.Contains(t, text, `pgmesh_mcp_server_source{source="file"} 1`)
	require.NotContains(t, text, "pgmesh_mcp_server_stale_seconds 0\n")
	fresh := connect(t, second.MCP.String(), nil)
	require.ElementsMatch(t, []string{"a", "b"}, fresh.until(2), "who has nothing gets all of it")
	require.Equal(t, codes.Unavailable, status.Code(apply(t, second.MCP.String())))

	postgres.Start()
	require.True(t, live(again.standing(live)))
	write(t, postgres.URL, "b", "c.example")
	require.Equal(t, []string{"b"}, again.until(3))
	require.Equal(t, []string{"b"}, fresh.until(3))
	_, text = second.get("/readyz")
	require.Equal(t, "ready\n", text)
}

// apply asks a server to change nothing.
func apply(t *testing.T, address string) error {
	t.Helper()
	conn, err := grpc.NewClient(address, plaintext...)
	require.NoError(t, err)
	defer conn.Close()
	_, err = adminv1.NewAdminServiceClient(conn).Apply(t.Context(), &adminv1.ApplyRequest{})
	return err
}

// A running server tells its clients when the database goes away and when it is back.
func TestARunningServerReportsALostDatabase(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Server(t)
	server := launch(t, serve.Options{Database: postgres.URL})
	c := connect(t, server.MCP.String(), nil)
	c.until(0)
	c.standing(live)
	postgres.Kill()
	told := c.standing(stale)
	require.False(t, told.Saved)
	code, text := server.get("/readyz")
	require.Equal(t, 200, code)
	require.Regexp(t, `^ready: serving revision 0, the newest of 20`, text)
	postgres.Start()
	c.standing(live)
	write(t, postgres.URL, "a", "a.example")
	require.Equal(t, []string{"a"}, c.until(1))
}

// What a failover or restore has lost is removed from clients, just as by a server that runs
// meanwhile.
func TestADatabaseThatComesBackWithAnotherPastCounts(t *testing.T) {
	t.Parallel()
	postgres, dir := pgtest.Server(t), t.TempDir()
	o := serve.Options{Database: postgres.URL, StateDir: dir}
	for _, name := range []string{"a", "b", "c"} {
		write(t, postgres.URL, name, name+".example")
	}
	first := launch(t, o)
	c := connect(t, first.MCP.String(), nil)
	c.until(3)
	c.stop()
	first.end()
	// As if revisions 2 and 3 had never been, and another one had come instead.
	execute(t, postgres.URL, `ALTER TABLE mesh.resources DISABLE TRIGGER USER; DELETE FROM mesh.resources WHERE name <> 'a';
		ALTER TABLE mesh.resources ENABLE TRIGGER USER; DELETE FROM mesh_internal.transactions WHERE revision > 1`)
	write(t, postgres.URL, "d", "d.example")
	postgres.Stop()

	second := launch(t, o)
	again := connect(t, second.MCP.String(), c.held)
	require.Empty(t, again.until(3))
	postgres.Start()
	require.ElementsMatch(t, []string{"b gone", "c gone", "d"}, again.until(2))
}

func TestADamagedFileIsNotServed(t *testing.T) {
	t.Parallel()
	postgres, dir := pgtest.Server(t), t.TempDir()
	o := serve.Options{Database: postgres.URL, StateDir: dir}
	write(t, postgres.URL, "a", "a.example")
	first := launch(t, o)
	connect(t, first.MCP.String(), nil).until(1)
	first.end()
	postgres.Stop()
	file := filepath.Join(dir, "mcp-server.snapshot")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content[:len(content)-1], 0o600))

	second := launch(t, o)
	c := connect(t, second.MCP.String(), nil)
	require.Eventually(t, func() bool {
		code, text := second.get("/readyz")
		return code == 503 && text != "not ready: the first snapshot is not loaded yet\n"
	}, limit, 10*time.Millisecond)
	_, text := second.get("/metrics")
	require.Contains(t, text, "pgmesh_mcp_server_saved_damaged_total 1")
	aside, err := filepath.Glob(file + ".damaged-*")
	require.NoError(t, err)
	require.Len(t, aside, 1)
	postgres.Start()
	require.Equal(t, []string{"a"}, c.until(1))
	second.end()
	require.FileExists(t, file, "what is served now is kept again")
}

// Whatever is wrong with the database, a server goes on serving what it has. A server that has
// nothing exits with the reason.
func TestAServerThatHasSomethingToServeOutlivesAWrongSchema(t *testing.T) {
	t.Parallel()
	database, dir := pgtest.New(t), t.TempDir()
	write(t, database, "a", "a.example")
	first := launch(t, serve.Options{Database: database, StateDir: dir})
	connect(t, first.MCP.String(), nil).until(1)
	first.end()
	execute(t, database, "UPDATE mesh.schema_version SET version_id = version_id + 1000 WHERE version_id = (SELECT max(version_id) FROM mesh.schema_version)")

	nothing := serve.Options{Database: database, StateDir: t.TempDir(), Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}}
	nothing.Plaintext.Allowed, nothing.Log = true, discard
	require.ErrorContains(t, serve.Run(t.Context(), nothing, nil), "schema")
	second := launch(t, serve.Options{Database: database, StateDir: dir})
	require.Equal(t, []string{"a"}, connect(t, second.MCP.String(), nil).until(1))
}

// A server whose database is another mesh's, with another key, serves what it saved, and says whose that
// is and what to do, not that the database were away. If it can open the database, it says what it goes
// over to.
func TestAServerTellsADatabaseOfAnotherMesh(t *testing.T) {
	t.Parallel()
	database, dir := pgtest.New(t), t.TempDir()
	write(t, database, "a", "a.example")
	one := found(t, database, func(o *serve.Options) { o.StateDir = dir })
	one.ready(200, "ready")
	one.end()
	require.NoError(t, migration.Down(t.Context(), database, 0, func(string) {}))
	require.NoError(t, migration.Up(t.Context(), database))
	another := found(t, database, nil)
	another.ready(200, "ready")
	another.end()

	again := found(t, database, func(o *serve.Options) { o.StateDir, o.Sealing = dir, one.options.Sealing })
	again.ready(200, "ready: serving revision 1, saved")
	again.ready(200, "the database holds the mesh")
	again.ready(200, "and what this server saved in "+dir+" is of the mesh")
	again.ready(200, "Give it the database of the mesh that it saved; or, if the other is meant, the keys of that mesh and an empty --state-dir: the key of authority 1: it is sealed with the key")
	again.end()
	require.Contains(t, again.log.String(), "the database answers, and cannot be used: going by what was saved of the authority")
	require.NotContains(t, again.log.String(), "does not answer")

	over := found(t, database, func(o *serve.Options) { o.StateDir, o.Sealing = dir, another.options.Sealing })
	over.ready(200, "ready\n")
	over.end()
	require.Contains(t, over.log.String(), "the database holds another mesh than what was saved: clients are given what it has, and no more")
}

// A server that is given another key than it had ends, and says which it lacks: of what it saved it has no
// certificate either, so that nobody could connect to it.
func TestAServerWithAnotherKeyEnds(t *testing.T) {
	t.Parallel()
	database, dir := pgtest.New(t), t.TempDir()
	write(t, database, "a", "a.example")
	one := found(t, database, func(o *serve.Options) { o.StateDir = dir })
	one.ready(200, "ready\n")
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, authority.File)); return err == nil }, limit, 10*time.Millisecond)
	one.end()
	other := one.options
	other.Listen, other.HTTP = "127.0.0.1:0", monitor.Options{Address: "127.0.0.1:0"}
	other.Sealing = seal.Options{KeyFile: keyFile(t)}
	require.ErrorContains(t, serve.Run(t.Context(), other, nil), "which this server does not have")
}

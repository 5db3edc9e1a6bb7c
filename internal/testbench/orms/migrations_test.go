package orms

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

const weights = "SELECT string_agg(weight::text, ' ' ORDER BY position) FROM mesh.route_destinations WHERE virtual_service = 'reviews' AND route = 'everyone'"

// Steps go up and down, each as a revision with a name, and leave the schema of the mesh alone.
func TestMigrations(t *testing.T) {
	t.Parallel()
	tools(t)
	for title, back := range map[string][]string{
		"dbmate":  {"dbmate rollback", "dbmate rollback"},
		"Alembic": {"alembic downgrade -1", "alembic downgrade -1"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s, mesh := read(t, "migrations.md", title), bookinfo(t)
			dir, url := s.folder(t), mesh.Conn.Config().ConnString()
			require.NotEmpty(t, s.printed)
			require.Contains(t, run(t, dir, url, s.commands), s.printed)
			require.Equal(t, "90 10", storetest.Value[string](mesh, weights))

			run(t, dir, url, settings(s.commands)+back[0])
			require.Equal(t, "100 0", storetest.Value[string](mesh, weights))
			run(t, dir, url, settings(s.commands)+back[1])
			require.Equal(t, []string{"Set up bookinfo", "Payments", "A tenth of the readers see v2", "revert of revision 3", "No payments"},
				storetest.Collect[string](mesh, "SELECT message FROM mesh.revisions ORDER BY revision"))
			require.Equal(t, 0, storetest.Value[int](mesh, "SELECT count(*) FROM release.mesh_migrations"))
			require.Empty(t, storetest.Collect[string](mesh, "SELECT name FROM mesh.check_installation()"))
		})
	}
}

// A tool looks at errors alone, so the way back over what somebody has changed since is one.
func TestTheWayBackOverAChange(t *testing.T) {
	t.Parallel()
	tools(t)
	for title, back := range map[string]string{"dbmate": "dbmate rollback", "Alembic": "alembic downgrade -1"} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s, mesh := read(t, "migrations.md", title), bookinfo(t)
			dir, url := s.folder(t), mesh.Conn.Config().ConnString()
			run(t, dir, url, s.commands)
			made := storetest.Collect[string](mesh, "SELECT m::text FROM release.mesh_migrations m")
			mesh.Exec(`UPDATE mesh.routes SET timeout = '5s' WHERE virtual_service = 'reviews'`)
			out, err := try(t, dir, url, settings(s.commands)+back)
			require.Error(t, err, out)
			require.Contains(t, out, "revision 3 cannot be taken back whole: VirtualService default/reviews was changed by revision 4")
			require.Equal(t, made, storetest.Collect[string](mesh, "SELECT m::text FROM release.mesh_migrations m"), "the step is not noted as undone")
			require.Equal(t, "90 10", storetest.Value[string](mesh, weights))
		})
	}
}

// settings are the lines of commands that set variables.
func settings(commands string) string {
	return strings.Join(regexp.MustCompile(`(?m)^export .*\n`).FindAllString(commands, -1), "")
}

// What the page has CI do runs the steps that the mesh has not made yet. It lets good ones pass, and
// ends with an error over one that leads nowhere.
func TestStepsInCI(t *testing.T) {
	t.Parallel()
	tools(t)
	ci, steps := read(t, "migrations.md", "In CI: before it is in force"), read(t, "migrations.md", "dbmate")
	for subset, says := range map[string]string{"v2": "", "v9": "unknown-subset"} {
		t.Run(subset, func(t *testing.T) {
			t.Parallel()
			dir, mesh := steps.folder(t), bookinfo(t)
			canary := filepath.Join(dir, "release/20261129100000_canary.sql")
			require.NoError(t, os.Rename(canary, canary+".later"))
			run(t, dir, mesh.Conn.Config().ConnString(), settings(steps.commands)+"dbmate up")
			require.NoError(t, os.Rename(canary+".later", canary))
			export(t, dir, mesh, dumping(t))
			more := "-- migrate:up\nUPDATE mesh.route_destinations SET subset = '" + subset + "' WHERE virtual_service = 'reviews' AND subset = 'v2';\n-- migrate:down\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "release/20261129110000_more.sql"), []byte(more), 0o600))
			out, err := try(t, dir, pgtest.Empty(t), served(t, ci.commands))
			require.Equal(t, says == "", err == nil, out)
			require.Contains(t, out, says)
			require.NotContains(t, out, "Applied: 20261129090000_payments.sql", "the mesh has it already")
			require.Contains(t, out, "Applied: 20261129100000_canary.sql")
			require.Contains(t, out, "Applied: 20261129110000_more.sql")
		})
	}
}

// dumping is the command by which the page takes the table of versions along.
func dumping(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/migrations.md"))
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^    (pg_dump .*)$`).FindSubmatch(page)
	require.NotNil(t, command)
	return string(command[1])
}

// served has the server of the commands listen on a free port, and ends it with them.
func served(t *testing.T, commands string) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return "trap 'kill $(jobs -p)' EXIT\n" + strings.ReplaceAll(commands, "127.0.0.1:15020", address)
}

// export writes what the mesh has into the folder: its resources as mesh.yaml, and by the command dump
// which steps it has made.
func export(t *testing.T, dir string, mesh storetest.Session, dump string) {
	t.Helper()
	programs := filepath.Dir(mesh.Program("pg_dump"))
	run(t, dir, mesh.Conn.Config().ConnString(), served(t, `mcp-server run --insecure --database "$DATABASE_URL" --listen 127.0.0.1:15020 --state-dir "" &
for _ in {1..100}; do mcp-client --insecure --server 127.0.0.1:15020 status && break || sleep 0.1; done
mcp-client --insecure --server 127.0.0.1:15020 export > mesh.yaml
PATH=`+programs+`:$PATH MESH_DATABASE_URL="$DATABASE_URL"
`+dump))
}

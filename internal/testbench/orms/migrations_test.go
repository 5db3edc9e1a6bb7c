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

// settings are the lines of commands that set variables.
func settings(commands string) string {
	return strings.Join(regexp.MustCompile(`(?m)^export .*\n`).FindAllString(commands, -1), "")
}

// What the page has CI do lets good steps pass, and ends with an error over one that leads nowhere.
func TestStepsInCI(t *testing.T) {
	t.Parallel()
	tools(t)
	ci, steps := read(t, "migrations.md", "In CI: before it is in force"), read(t, "migrations.md", "dbmate")
	for subset, says := range map[string]string{"v2": "", "v9": "unknown-subset"} {
		t.Run(subset, func(t *testing.T) {
			t.Parallel()
			dir := steps.folder(t)
			more := "-- migrate:up\nUPDATE mesh.route_destinations SET subset = '" + subset + "' WHERE virtual_service = 'reviews' AND subset = 'v2';\n-- migrate:down\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "release/20261129110000_more.sql"), []byte(more), 0o600))
			export(t, dir)
			out, err := try(t, dir, pgtest.Empty(t), served(t, ci.commands))
			require.Equal(t, says == "", err == nil, out)
			require.Contains(t, out, says)
			require.Contains(t, out, "Applied: 20261129110000_more.sql")
		})
	}
}

// served has the server of the commands listen on a free port, and ends it with them.
func served(t *testing.T, commands string) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return "trap 'kill $(jobs -p)' EXIT\n" + strings.ReplaceAll(commands, "127.0.0.1:15020", address)
}

// export writes mesh.yaml as it is exported from a mesh with the sample.
func export(t *testing.T, dir string) {
	t.Helper()
	mesh := bookinfo(t)
	run(t, dir, mesh.Conn.Config().ConnString(), served(t, `mcp-server run --insecure --database "$DATABASE_URL" --listen 127.0.0.1:15020 --state-dir "" &
for _ in {1..100}; do mcp-client --insecure --server 127.0.0.1:15020 status && break || sleep 0.1; done
mcp-client --insecure --server 127.0.0.1:15020 export > mesh.yaml`))
}

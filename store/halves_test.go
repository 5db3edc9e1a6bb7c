package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// What came after the backup is not lost with the half of a mesh that is dropped before a restore: the
// error says how to save it, and the guide how it comes back.
func TestResourcesOfHalfAMeshComeBackAfterARestore(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	dump, restore, psql := db.Program("pg_dump"), db.Program("pg_restore"), db.Program("psql")
	file := filepath.Join(t.TempDir(), "resources.csv")
	run := func(commands string) {
		t.Helper()
		storetest.Run(t, []byte(strings.ReplaceAll(commands, "resources.csv", file)), psql, "-qX", "-v", "ON_ERROR_STOP=1", "-d", url)
	}
	guide, err := os.ReadFile("../docs/operators-guide.md")
	require.NoError(t, err)

	for _, name := range []string{"same", "changed", "deleted"} {
		db.Put(name, "a")
	}
	backup := storetest.Run(t, nil, dump, "-Fc", "--schema=mesh", "--schema=mesh_internal", "-d", url)
	older := db.Newest()
	db.Exec("DELETE FROM mesh.resources WHERE name = 'deleted'")
	db.Put("changed", "b")
	db.Put("new", "b")
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec, annotations) VALUES ('MeshConfig', 'istio-system', 'default', '{}', '{"a": "it''s \"b\", c"}')`)
	const all = `SELECT concat_ws(' ', api_group, kind, namespace, name, spec, labels, annotations) FROM mesh.resources ORDER BY 1`
	was := collect[string](db, all)

	db.Exec("DROP SCHEMA mesh_internal CASCADE")
	_, err = migration.ReadStatus(t.Context(), url)
	require.Error(t, err)
	saving := regexp.MustCompile(`\\copy \(.*\) TO 'resources.csv' CSV`).FindString(err.Error())
	require.NotEmpty(t, saving)
	require.True(t, bytes.Contains(guide, []byte("\n"+saving+"\n")))
	run(saving)
	run(regexp.MustCompile(`DROP SCHEMA [^.]*`).FindString(err.Error()))
	storetest.Run(t, backup, restore, "--exit-on-error", "-d", url)
	require.Len(t, collect[string](db, all), 3)
	back := regexp.MustCompile("(?s)```text\n(BEGIN;\nCREATE TEMPORARY TABLE saved.*?)```").FindSubmatch(guide)
	require.NotNil(t, back)
	run(string(back[1]))

	require.Equal(t, was, collect[string](db, all))
	require.Equal(t, older+1, db.Newest())
	require.Equal(t, []string{"changed update", "default create", "deleted delete", "new create"},
		collect[string](db, "SELECT concat_ws(' ', name, operation) FROM mesh.history WHERE revision = $1 ORDER BY name", older+1))
	require.Empty(t, collect[string](db, whatDiffers))
}

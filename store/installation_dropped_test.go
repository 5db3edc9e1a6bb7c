package store_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migration"
)

// What was dropped takes with it what the comparison of resources and of grants reads. It is told all the same.
func TestADroppedColumnIsToldThoughViewsFellWithIt(t *testing.T) {
	t.Parallel()
	for column, drop := range map[string]string{
		"mesh.resources.annotations":                "ALTER TABLE mesh.resources DROP COLUMN annotations CASCADE",
		"mesh_internal.namespace_grants.granted_at": "ALTER TABLE mesh_internal.namespace_grants DROP COLUMN granted_at CASCADE",
	} {
		url := pgtest.New(t)
		db := connect(t, url)
		db.Put("x", "a")
		db.Exec(drop)
		require.Contains(t, collect[string](db, whatDiffers), "column "+column+" is missing")
		status, err := migration.ReadStatus(t.Context(), url)
		require.NoError(t, err)
		_, left := status.Remakes()
		require.True(t, slices.ContainsFunc(left, func(d store.Difference) bool { return d.Name == column }))
		err = migration.UpTelling(t.Context(), url, storetest.Quietly)
		require.ErrorContains(t, err, "Look at them first: SELECT * FROM mesh.check_installation()")
		require.Contains(t, collect[string](db, whatDiffers), "column "+column+" is missing")
	}
}

// To migrate is no advice to whoever does it.
func TestAMigrationThatMissesATableLeadsToWhatToDo(t *testing.T) {
	t.Parallel()
	const back = " (somebody has dropped, renamed or moved it: put it back, restore it from a backup, or make it again as the migration did, which mcp-server migrate sql prints)"
	const look = "\nobjects of the schema that somebody has changed: %d. Look at them first: SELECT * FROM mesh.check_installation()"
	for table, says := range map[string]string{
		"mesh.settings":         `installing the functions and views of the schema: ERROR: relation "mesh.settings" does not exist (SQLSTATE 42P01)` + back + look,
		"mesh_internal.changes": `installing the functions and views of the schema: ERROR: type mesh_internal.changes[] does not exist (SQLSTATE 42704)` + back + look,
	} {
		url := pgtest.New(t)
		db := connect(t, url)
		db.Exec("DROP TABLE " + table + " CASCADE")
		for range 2 {
			require.EqualError(t, migration.Up(t.Context(), url), fmt.Sprintf(says, len(collect[string](db, whatDiffers))))
		}
		require.Contains(t, collect[string](db, whatDiffers), "table "+table+" is missing")
	}

	url := pgtest.New(t)
	db := connect(t, url)
	script := strings.Builder{}
	require.NoError(t, migration.WriteScript(&script, 0))
	db.Exec("DROP TABLE mesh_internal.installed_objects; CREATE OR REPLACE FUNCTION mesh_internal.root_namespace() RETURNS text LANGUAGE sql STABLE AS $$SELECT 'x'$$")
	require.EqualError(t, migration.Up(t.Context(), url), `looking what others have changed in the schema: ERROR: relation "mesh_internal.installed_objects" does not exist (SQLSTATE 42P01)`+back)
	_, err := migration.ReadStatus(t.Context(), url)
	require.ErrorContains(t, err, back)
	db.Exec(regexp.MustCompile(`CREATE TABLE mesh_internal.installed_objects [^;]*`).FindString(script.String()))
	require.NoError(t, migration.Up(t.Context(), url))
	require.Empty(t, collect[string](db, whatDiffers))
	require.NotEqual(t, "x", value[string](db, "SELECT mesh_internal.root_namespace()"), "who knows what it was before")
	db.Exec("ALTER TABLE mesh.resources ADD COLUMN ticket text")
	require.Equal(t, []string{"column mesh.resources.ticket is not of the mesh"}, collect[string](db, whatDiffers))
}

// A trigger that fires otherwise is told in words, and the advice can be followed at once.
func TestADisabledTriggerIsToldAsThat(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	const told = "SELECT concat_ws(' ', name, difference) FROM mesh.check_installation()"
	for how, difference := range map[string]string{
		"DISABLE":        "is disabled: somebody has disabled it",
		"ENABLE ALWAYS":  "fires with session_replication_role = replica, too: somebody has enabled it always",
		"ENABLE REPLICA": "fires with session_replication_role = replica alone: somebody has enabled it so",
	} {
		db.Exec("ALTER TABLE mesh.resources " + how + " TRIGGER record_insert")
		require.Equal(t, []string{"mesh.resources.record_insert " + difference}, collect[string](db, told))
		status, err := migration.ReadStatus(t.Context(), url)
		require.NoError(t, err)
		anew, left := status.Remakes()
		require.Len(t, anew, 1)
		require.Empty(t, left)
		db.Exec(value[string](db, "SELECT substring(advice FROM 'or: (.*)') FROM mesh.check_installation()"))
		require.Empty(t, collect[string](db, told))
	}
	db.Exec("ALTER TABLE mesh.resources DISABLE TRIGGER record_insert")
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.Empty(t, collect[string](db, told))
	db.Put("x", "a")
	require.Equal(t, int64(1), db.Newest())
	db.Exec("DROP TRIGGER record_insert ON mesh.resources; CREATE TRIGGER record_insert AFTER INSERT ON mesh.resources FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_insert(); ALTER TABLE mesh.resources DISABLE TRIGGER record_insert")
	require.Contains(t, value[string](db, told), "is not what the migration made", "to enable it would not do")
}

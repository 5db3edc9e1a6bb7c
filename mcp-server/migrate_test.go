package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// migrate runs a command of mcp-server migrate, and returns what it prints, without the versions.
func migrate(t *testing.T, url string, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := migrateCommand()
	cmd.SetArgs(append(args, "--database", url))
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	var said []string
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, ".sql  ") && !strings.HasPrefix(line, "VERSION") {
			said = append(said, line)
		}
	}
	return strings.Join(said, ""), err
}

// The versions alone do not say that the schema is as it should be.
func TestMigrateStatusTellsWhatOthersHaveChanged(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	says := func(exit, text string, args ...string) {
		t.Helper()
		said, err := migrate(t, url, args...)
		require.Equal(t, text, said)
		if exit == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, exit)
		}
	}
	says("", "the schema is up to date\n", "status")

	db.Exec("DROP VIEW mesh.view_keys")
	missing := "to do: make anew: view mesh.view_keys is missing: somebody has dropped it\nmcp-server migrate up does it\n"
	says("exit code 3", missing, "status")
	says("exit code 3", missing, "up", "--dry-run")
	_, err := migrate(t, url, "up")
	require.NoError(t, err)
	says("", "the schema is up to date\n", "status")
	says("", "the schema is up to date\n", "up")

	db.Exec("ALTER TABLE mesh.resources ADD COLUMN ticket text")
	changed := "changed by others: column mesh.resources.ticket is not of the mesh: somebody has added it: " +
		"keep data of your own in a table of your own, and run: ALTER TABLE mesh.resources DROP COLUMN ticket\nmcp-server migrate up has nothing to do\n"
	says("exit code 4", changed, "status")
	says("", changed, "up", "--dry-run")
}

// A role that only runs servers is told which one migrates, and not told if there is nothing to do.
func TestWhoMayNotMigrateIsToldWhoMay(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	server := y.Role("server")
	owner := storetest.Value[string](y.Owner, "SELECT current_user")
	y.Owner.Exec("SELECT mesh.grant_server($1)", server)
	for _, args := range [][]string{{"status"}, {"up"}} {
		_, err := migrate(t, y.Login(server), args...)
		require.NoError(t, err)
	}
	y.Owner.Exec("UPDATE mesh_internal.installation SET code_digest = 'of another program'")
	_, err := migrate(t, y.Login(server), "up")
	require.EqualError(t, err, "the role "+server+" cannot migrate the schema mesh, which belongs to "+owner+": run mcp-server migrate up with a database URL of the role "+owner+
		", or of a member of it, and mcp-server run without --migrate. What mesh.grant_server gives is for running")
	_, err = migrate(t, y.Login(server), "down", "40")
	require.ErrorContains(t, err, "cannot migrate the schema mesh")
	y.Owner.Exec("GRANT " + owner + " TO " + server)
	_, err = migrate(t, y.Login(server), "up")
	require.NoError(t, err)
}

// Who goes back is told what is lost, and loses nothing without saying so.
func TestMigrateDownLosesNothingUnasked(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	versions := storetest.Collect[int64](db, "SELECT version_id FROM mesh.schema_version WHERE version_id > 0 ORDER BY version_id DESC")
	newest, before := versions[0], versions[1]
	for version, says := range map[int64]string{
		newest + 1: fmt.Sprintf("there is no version %d of the schema: this program knows 1 to 16, 18 to 27, 29 to %d, which mcp-server migrate status lists, and 0 removes the schema", newest+1, newest),
		28:         fmt.Sprintf("there is no version 28 of the schema: this program knows 1 to 16, 18 to 27, 29 to %d, which mcp-server migrate status lists, and 0 removes the schema", newest),
		newest:     fmt.Sprintf("the schema has version %d, from which there is no way down to %[1]d", newest),
	} {
		for _, dryRun := range []string{"--dry-run=false", "--dry-run"} {
			_, err := migrate(t, url, "down", strconv.FormatInt(version, 10), dryRun)
			require.EqualError(t, err, says)
		}
	}

	said, err := migrate(t, url, "down", strconv.FormatInt(before, 10), "--dry-run")
	require.NoError(t, err)
	require.Contains(t, said, fmt.Sprintf("to do: take back version %d (", newest))
	require.NotContains(t, said, "lost")

	db.Put("x", "a")
	db.Exec("SELECT mesh.create_token('reader', sha256('reader'), '{read}'); INSERT INTO mesh.secrets (name, data) VALUES ('s', mesh.secret_data('{\"password\": \"x\"}')), ('t', mesh.secret_data('{\"password\": \"x\"}'))")
	said, err = migrate(t, url, "down", "12", "--dry-run")
	require.EqualError(t, err, "exit code 3")
	require.Contains(t, said, "lost: mesh_internal.secret_changes, with 2 rows (version 16)\nlost: mesh.secrets, with 2 rows (version 16)\nlost: mesh.tokens, with 1 row (version 13)\n")
	_, err = migrate(t, url, "down", "12")
	require.EqualError(t, err, "going down to version 12 drops tables that have rows: mesh_internal.secret_changes, with 2 rows (version 16); "+
		"mesh.secrets, with 2 rows (version 16); mesh.tokens, with 1 row (version 13). Export or dump what you need, and give --drop-data")
	db.Put("x", "b")

	said, err = migrate(t, url, "down", "12", "--drop-data")
	require.NoError(t, err)
	require.Contains(t, said, "took back version 13 (")
	require.Equal(t, 1, storetest.Value[int](db, "SELECT count(*) FROM mesh.resources"))
	_, err = migrate(t, url, "down", "0")
	require.ErrorContains(t, err, "mesh.resources, with 1 row (version 4)")
	_, err = migrate(t, url, "down", "0", "--drop-data")
	require.NoError(t, err)
	require.False(t, storetest.Value[bool](db, "SELECT to_regnamespace('mesh') IS NOT NULL"))
}

// What others built is told before, and by all ways down: Postgres would refuse to drop it with some of the steps made.
func TestMigrateDownTellsWhatIsBuiltOnTheMesh(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	for statement, says := range map[string]struct{ built, drop, version string }{
		"CREATE VIEW v AS SELECT * FROM mesh.virtual_services":                                          {"view v depends on view mesh.virtual_services", "VIEW v", "49"},
		"CREATE VIEW v AS SELECT mesh.newest_revision()":                                                {"view v depends on function mesh.newest_revision()", "VIEW v", "49"},
		"CREATE FUNCTION f() RETURNS SETOF mesh.problems LANGUAGE sql AS 'SELECT * FROM mesh.problems'": {"function f() depends on type mesh.problems", "FUNCTION f()", "49"},
		"CREATE FUNCTION f(mesh.problems[]) RETURNS int LANGUAGE sql AS 'SELECT 1'":                     {"function f(mesh.problems[]) depends on type mesh.problems[]", "FUNCTION f", "49"},
		"CREATE TABLE t (at timestamptz); CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION mesh_internal.record_insert()": {
			"trigger x on table t depends on function mesh_internal.record_insert()", "TABLE t", "49",
		},
		"CREATE TABLE t (revision bigint DEFAULT mesh.newest_revision())": {"default value for column revision of table t depends on function mesh.newest_revision()", "TABLE t", "49"},
		"CREATE VIEW v AS SELECT name FROM mesh.tokens":                   {"view v depends on table mesh.tokens", "VIEW v", "12"},
		"CREATE MATERIALIZED VIEW v AS SELECT xid FROM mesh.resources":    {"materialized view v depends on column xid of table mesh.resources", "MATERIALIZED VIEW v", "11"},
		"CREATE TABLE t (saved mesh.resources)":                           {"column saved of table t depends on type mesh.resources", "TABLE t", "0"},
		"CREATE TABLE mesh.own (a int)":                                   {"table mesh.own depends on schema mesh", "TABLE mesh.own", "0"},
	} {
		db.Exec(statement)
		said, err := migrate(t, url, "down", says.version, "--dry-run")
		require.EqualError(t, err, "exit code 3")
		require.Regexp(t, `^(to do: .*\n)*drop first what others built on it: `+regexp.QuoteMeta(says.built)+"\n$", said)
		_, err = migrate(t, url, "down", says.version, "--drop-data")
		require.EqualError(t, err, "going down to version "+says.version+": drop first what others built on it: "+says.built)
		db.Exec("DROP " + says.drop)
	}
	db.Put("x", "a")

	db.Exec("CREATE VIEW v AS SELECT name FROM mesh.resources; CREATE VIEW mesh.own AS SELECT 1; CREATE FUNCTION mesh.mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';" +
		"CREATE TRIGGER mine BEFORE INSERT ON mesh.resources FOR EACH ROW EXECUTE FUNCTION mesh.mine()")
	said, err := migrate(t, url, "down", "49", "--dry-run")
	require.EqualError(t, err, "exit code 3")
	require.Contains(t, said, "lost: function mesh.mine(), which others have added\nlost: trigger mesh.resources.mine, which others have added\nlost: view mesh.own, which others have added\n")
	_, err = migrate(t, url, "down", "49")
	require.EqualError(t, err, "going down to version 49 drops what others have added to the schemas: function mesh.mine(), trigger mesh.resources.mine, view mesh.own. "+
		"Export or dump what you need, and give --drop-data")
	_, err = migrate(t, url, "down", "49", "--drop-data")
	require.NoError(t, err)
	require.Equal(t, "x", storetest.Value[string](db, "SELECT name FROM v"), "what does not go is not in the way")
}

// Without one of its schemas a mesh cannot be made whole by a migration. All commands say the same, which
// can be followed, also after somebody has made an empty schema in its place.
func TestHalfAMeshIsSentToItsBackup(t *testing.T) {
	t.Parallel()
	const text = "the schema %s of the mesh is missing, or what it had, and %s is still there: somebody has dropped it, and no migration makes again what it had. " +
		"Stop all mcp-servers, %sand run in psql: DROP SCHEMA IF EXISTS mesh, mesh_internal CASCADE. " +
		"Then restore both schemas from a backup (docs/operators-guide.md#restore); or, to begin anew with an empty mesh, run mcp-server migrate up"
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	for left, missing := range map[string]string{"mesh": "mesh_internal", "mesh_internal": "mesh"} {
		db.Put("x", "a")
		db.Exec("DROP SCHEMA " + missing + " CASCADE")
		saving := ""
		if left == "mesh" {
			saving = `save the resources in psql, for the backup may be older (\copy (SELECT api_group, kind, namespace, name, spec, labels, annotations FROM mesh.resources) TO 'resources.csv' CSV; docs/operators-guide.md#restore says how they come back), `
		}
		says := fmt.Sprintf(text, missing, left, saving)
		for range 2 {
			for command, doing := range map[string]string{
				"status": "reading the version of the schema", "up --dry-run": "reading the version of the schema", "down 0 --dry-run": "reading the version of the schema",
				"up": "preparing the schema mesh", "down 0 --drop-data": "preparing the schema mesh",
			} {
				said, err := migrate(t, url, strings.Fields(command)...)
				require.EqualError(t, err, doing+": "+says)
				require.Empty(t, said)
			}
			db.Exec("CREATE SCHEMA IF NOT EXISTS " + missing) // as a hint of Postgres's would have it
		}
		db.Exec(regexp.MustCompile("DROP SCHEMA [^.]*").FindString(says))
		_, err := migrate(t, url, "up")
		require.NoError(t, err)
	}
	db.Put("x", "a")
}

// A schema that was renamed is renamed back, for to restore both would lose what came after the backup. So
// it is beside the schema of another program that has tables of the same names.
func TestARenamedHalfOfAMeshIsRenamedBack(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Exec(`CREATE SCHEMA another; CREATE TABLE another.schema_version (); CREATE TABLE another.resources (); CREATE TABLE another.installation ()`)
	for left, missing := range map[string]string{"mesh": "mesh_internal", "mesh_internal": "mesh"} {
		for _, occupied := range []string{"", "DROP SCHEMA " + missing + "; "} {
			db.Exec("ALTER SCHEMA " + missing + ` RENAME TO "mesh-old"`)
			if occupied != "" {
				db.Exec("CREATE SCHEMA " + missing)
			}
			back := occupied + `ALTER SCHEMA "mesh-old" RENAME TO ` + missing
			says := fmt.Sprintf(`the schema %s of the mesh is missing, or what it had, and %s is still there: somebody has renamed it to "mesh-old", where all is that it had. Stop all mcp-servers, and run in psql: %s`, missing, left, back)
			for _, command := range []string{"status", "up", "down 0 --drop-data"} {
				_, err := migrate(t, url, strings.Fields(command)...)
				require.ErrorContains(t, err, says)
			}
			db.Exec(back)
			_, err := migrate(t, url, "status")
			require.NoError(t, err)
			db.Put("x", "b")
		}
	}
}

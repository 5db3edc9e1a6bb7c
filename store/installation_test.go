package store_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

const whatDiffers = "SELECT concat_ws(' ', kind, name, split_part(difference, ':', 1)) FROM mesh.check_installation()"

// What somebody else changes in the schema is told, and a migration neither forgets it nor takes it
// for its own.
func TestChangesOfTheInstallationAreFound(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	require.Empty(t, collect[string](db, whatDiffers))

	db.Exec(`ALTER TABLE mesh.resources ADD COLUMN "my note" text;
		ALTER TABLE mesh.settings ALTER COLUMN value DROP NOT NULL;
		ALTER TABLE mesh.resources ALTER COLUMN labels SET DEFAULT '{"a": "b"}', ALTER COLUMN rules DROP DEFAULT, ALTER COLUMN name SET DEFAULT 'x';
		ALTER TABLE mesh_internal.installed_objects ALTER COLUMN server TYPE varchar(90);
		CREATE FUNCTION public.mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER mine BEFORE INSERT ON mesh.resources FOR EACH ROW EXECUTE FUNCTION public.mine();
		ALTER TABLE mesh.resources DISABLE TRIGGER stamp_row;
		DROP INDEX mesh.resources_by_rules;
		CREATE INDEX mine ON mesh.resources (labels);
		ALTER TABLE mesh.resources ADD CONSTRAINT small CHECK (length(name) < 50) NOT VALID;
		CREATE OR REPLACE FUNCTION mesh_internal.root_namespace() RETURNS text LANGUAGE sql STABLE AS $$SELECT 'x'$$;
		CREATE VIEW mesh.my_view AS SELECT 1 AS one;
		DROP POLICY delete_granted ON mesh.settings`)
	code := []string{
		"function mesh_internal.root_namespace() is not what the migration made",
		"policy mesh.settings.delete_granted is missing",
		"trigger mesh.resources.stamp_row is disabled",
	}
	tables := []string{
		`column mesh.resources."my note" is not of the mesh`,
		"column mesh.resources.labels is not what the migration made",
		"column mesh.resources.name is not what the migration made",
		"column mesh.resources.rules is not what the migration made",
		"column mesh.settings.value is not what the migration made",
		"column mesh_internal.installed_objects.server is not what the migration made",
		"constraint mesh.resources.small is not of the mesh",
		"index mesh.mine is not of the mesh",
		"index mesh.resources_by_rules is missing",
		"trigger mesh.resources.mine is not of the mesh",
		"view mesh.my_view is not of the mesh",
	}
	require.ElementsMatch(t, append(code, tables...), collect[string](db, whatDiffers))
	require.Equal(t, "run mcp-server migrate up, which makes it anew", value[string](db, "SELECT advice FROM mesh.check_installation() WHERE kind = 'function'"))

	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.ElementsMatch(t, tables, collect[string](db, whatDiffers), "functions, triggers and policies were made anew")
	db.Exec("UPDATE mesh_internal.installation SET code_digest = 'of another program', noted_digest = replace(noted_digest, code_digest || ' ', 'of another program ')")
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.ElementsMatch(t, tables, collect[string](db, whatDiffers), "the next program makes them its own")

	// The advice can be followed.
	for _, statement := range collect[string](db, `SELECT coalesce(substring(advice FROM 'run: ([^;]*)'), substring(replace(advice, '…', 'public') FROM 'ALTER .*'))
		FROM mesh.check_installation()`) {
		db.Exec(statement)
	}
	require.Empty(t, collect[string](db, whatDiffers))
}

// A column that was renamed is to be renamed back, for to drop it would lose what it has. Whether one
// was, its type and its place tell: a new column comes last.
func TestARenamedColumnIsRenamedBack(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	const told = "SELECT concat_ws(' | ', name, difference, advice) FROM mesh.check_installation() WHERE kind = 'column'"
	const run = "SELECT substring(advice FROM 'run: (.*)') FROM mesh.check_installation() WHERE advice LIKE 'run: %'"
	db.Put("x", "a")
	db.Exec(`UPDATE mesh.resources SET labels = '{"a": "b"}'`)
	for _, name := range []string{"lables", `"my labels"`} {
		db.Exec("ALTER TABLE mesh.resources RENAME labels TO " + name)
		require.ElementsMatch(t, []string{
			"mesh.resources.labels | is missing: somebody has renamed it to " + name + " | run: ALTER TABLE mesh.resources RENAME COLUMN " + name + " TO labels",
			"mesh.resources." + name + " | is not of the mesh: somebody has renamed labels to it | keep it, and do what the advice about labels says",
		}, collect[string](db, told))
		all := collect[string](db, run)
		require.Len(t, all, 1, "what names the column is not to be made anew")
		db.Exec(all[0])
		require.Empty(t, collect[string](db, whatDiffers))
	}
	require.Equal(t, "b", value[string](db, "SELECT labels ->> 'a' FROM mesh.resources"))

	db.Exec("ALTER TABLE mesh_internal.report_statuses RENAME changed TO modified; ALTER TABLE mesh_internal.report_statuses RENAME report TO reported")
	back := collect[string](db, run)
	require.ElementsMatch(t, []string{
		"ALTER TABLE mesh_internal.report_statuses RENAME COLUMN modified TO changed", "ALTER TABLE mesh_internal.report_statuses RENAME COLUMN reported TO report",
	}, back, "the last column, and one that indexes and constraints name")
	require.Equal(t, 3, value[int](db, "SELECT count(*) FROM mesh.check_installation() WHERE advice = 'rename the column back first: mesh_internal.report_statuses.report is missing'"))
	for _, statement := range back {
		db.Exec(statement)
	}
	require.Empty(t, collect[string](db, whatDiffers))

	// What one cannot know is not said.
	db.Exec("ALTER TABLE mesh_internal.report_statuses DROP changed, ADD modified timestamptz NOT NULL DEFAULT now(); ALTER TABLE mesh.resources RENAME labels TO a; ALTER TABLE mesh.resources RENAME annotations TO b")
	require.Empty(t, collect[string](db, run))
	require.Equal(t, []string{
		"if it has the data of changed, which is missing, rename it to that. Otherwise keep data of your own in a table of your own, and run: ALTER TABLE mesh_internal.report_statuses DROP COLUMN modified",
	}, collect[string](db, "SELECT advice FROM mesh.check_installation() WHERE name LIKE '%modified'"))
	require.Contains(t, value[string](db, "SELECT advice FROM mesh.check_installation() WHERE name = 'mesh.resources.labels'"), "find out whether a or b has its data, and rename that one back")
}

// A view that was renamed is told by what it shows, and so is what follows: its triggers go with it, and
// views that read it are as they were once it has its name again.
func TestARenamedViewIsRenamedBack(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	const told = "SELECT concat_ws(' | ', kind, name, difference, advice) FROM mesh.check_installation()"
	for view, name := range map[string]string{"mesh.virtual_services": "vss", "mesh.view_keys": "keys", "mesh_internal.recorded_changes": `"My changes"`} {
		schema, old, _ := strings.Cut(view, ".")
		db.Exec("ALTER VIEW " + view + " RENAME TO " + name)
		found := collect[string](db, told)
		require.Contains(t, found, "view | "+view+" | is missing: somebody has renamed it to "+name+" | run: ALTER VIEW "+schema+"."+name+" RENAME TO "+old)
		require.Contains(t, found, "view | "+schema+"."+name+" | is not of the mesh: somebody has renamed "+old+" to it | keep it, and do what the advice about "+old+" says")
		for _, line := range found {
			if !strings.Contains(line, name) {
				require.Contains(t, line, "| rename the view back first: "+view+" is missing", "whatever else is told reads it")
			}
		}
		db.Exec("ALTER VIEW " + schema + "." + name + " RENAME TO " + old)
		require.Empty(t, collect[string](db, told))
	}
	db.Exec("CREATE VIEW mesh.keys_too AS " + value[string](db, "SELECT pg_get_viewdef('mesh.view_keys'::regclass)") + "; ALTER VIEW mesh.view_keys RENAME TO keys")
	require.Contains(t, collect[string](db, told), "view | mesh.view_keys | is missing: somebody has dropped it | run mcp-server migrate up, which makes it anew", "nobody knows which it is")
}

// A table that was renamed is not to be restored from a backup. Its columns tell it, and what names it
// follows it.
func TestARenamedTableIsRenamedBack(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	for table, name := range map[string]string{"mesh.resources": "resources_old", "mesh.settings": `"My settings"`, "mesh_internal.links": "l", "mesh_internal.transactions": "txs"} {
		schema, old, _ := strings.Cut(table, ".")
		db.Exec("ALTER TABLE " + table + " RENAME TO " + name)
		found := collect[string](db, "SELECT concat_ws(' | ', kind, name, difference, advice) FROM mesh.check_installation()")
		require.Contains(t, found, "table | "+table+" | is missing: somebody has renamed it to "+name+" | run: ALTER TABLE "+schema+"."+name+" RENAME TO "+old)
		require.Contains(t, found, "table | "+schema+"."+name+" | is not of the mesh: somebody has renamed "+old+" to it | keep it, and do what the advice about "+old+" says")
		for _, line := range found {
			if !strings.HasPrefix(line, "table | ") {
				require.Contains(t, line, "| rename the table back first: "+table+" is missing", "whatever else is told names it")
			}
		}
		db.Exec("ALTER TABLE " + schema + "." + name + " RENAME TO " + old)
		require.Empty(t, collect[string](db, whatDiffers))
	}

	// A table that is like none is new.
	db.Exec("ALTER TABLE mesh.settings RENAME TO mine; ALTER TABLE mesh.mine ADD COLUMN more int")
	require.Equal(t, "restore it from a backup, or make it again as the migration did (mcp-server migrate sql)", value[string](db, "SELECT advice FROM mesh.check_installation() WHERE name = 'mesh.settings'"))
}

// What is told as dropped would be made a second time, and a large table be locked for it.
func TestARenamedConstraintOrIndexIsRenamedBack(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	for rename, told := range map[string][3]string{
		"TABLE mesh.resources RENAME CONSTRAINT resource_exists_already TO": {"constraint", "mesh.resources.resource_exists_already", "TABLE mesh.resources RENAME CONSTRAINT %s TO resource_exists_already"},
		"TABLE mesh_internal.report_audiences RENAME CONSTRAINT report_audiences_report_fkey TO": {
			"constraint", "mesh_internal.report_audiences.report_audiences_report_fkey", "TABLE mesh_internal.report_audiences RENAME CONSTRAINT %s TO report_audiences_report_fkey",
		},
		"INDEX mesh.resources_by_rules RENAME TO":           {"index", "mesh.resources_by_rules", "INDEX mesh.%s RENAME TO resources_by_rules"},
		"INDEX mesh_internal.changes_of_resource RENAME TO": {"index", "mesh_internal.changes_of_resource", "INDEX mesh_internal.%s RENAME TO changes_of_resource"},
	} {
		for _, name := range []string{"other", `"My ON other"`} {
			db.Exec("ALTER " + rename + " " + name)
			require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
			old := told[1][strings.LastIndex(told[1], ".")+1:]
			require.ElementsMatch(t, []string{
				told[0] + " | " + told[1] + " | is missing: somebody has renamed it to " + name + " | run: ALTER " + fmt.Sprintf(told[2], name),
				told[0] + " | " + strings.TrimSuffix(told[1], old) + name + " | is not of the mesh: somebody has renamed " + old + " to it | keep it, and do what the advice about " + old + " says",
			}, collect[string](db, "SELECT concat_ws(' | ', kind, name, difference, advice) FROM mesh.check_installation()"))
			db.Exec("ALTER " + fmt.Sprintf(told[2], name))
			require.Empty(t, collect[string](db, whatDiffers))
		}
	}

	// Of two that are alike nobody knows which it was, and what is otherwise is another.
	db.Exec("DROP INDEX mesh.resources_by_rules; CREATE INDEX a ON mesh.resources (rules); CREATE INDEX b ON mesh.resources (rules);" +
		"DROP INDEX mesh_internal.changes_of_resource; CREATE INDEX c ON mesh_internal.changes (namespace, kind)")
	require.Equal(t, []string{
		"run: CREATE INDEX changes_of_resource ON mesh_internal.changes USING btree (namespace, kind, name)", "run: CREATE INDEX resources_by_rules ON mesh.resources USING btree (rules)",
	}, collect[string](db, "SELECT advice FROM mesh.check_installation() WHERE difference = 'is missing: somebody has dropped it' ORDER BY 1"))
	for _, statement := range collect[string](db, "SELECT substring(advice FROM 'run: ([^;]*)') FROM mesh.check_installation()") {
		db.Exec(statement)
	}
	require.Empty(t, collect[string](db, whatDiffers))
}

// A backup would be older than the rows that are elsewhere.
func TestATableInAnotherSchemaIsMovedBack(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	db.Exec("ALTER TABLE mesh.resources SET SCHEMA public")
	told := collect[string](db, "SELECT concat_ws(' | ', name, difference, advice) FROM mesh.check_installation() WHERE kind = 'table'")
	require.Equal(t, []string{"mesh.resources | is missing: somebody has moved it to another schema, as public.resources, or dropped it | if public.resources has its rows, run: ALTER TABLE public.resources SET SCHEMA mesh; " +
		"otherwise restore it from a backup, or make it again as the migration did (mcp-server migrate sql)"}, told)
	db.Exec(regexp.MustCompile("ALTER TABLE [^;]*").FindString(told[0]))
	require.Empty(t, collect[string](db, whatDiffers))
	db.Put("x", "b")
}

// Advice about a column of it would destroy what somebody has there.
func TestATableOfSomebodyElsesIsToldOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	db.Exec(`CREATE TABLE mesh.alembic_version (version_num text PRIMARY KEY, note text CHECK (note <> ''));
		CREATE INDEX ON mesh.alembic_version (note);
		CREATE FUNCTION public.mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER mine BEFORE INSERT ON mesh.alembic_version FOR EACH ROW EXECUTE FUNCTION public.mine();
		ALTER TABLE mesh.alembic_version ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON mesh.alembic_version`)
	told := "table mesh.alembic_version: move it to a schema of your own: ALTER TABLE mesh.alembic_version SET SCHEMA …"
	require.Equal(t, []string{told}, collect[string](db, "SELECT format('%s %s: %s', kind, name, advice) FROM mesh.check_installation()"))
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.Equal(t, []string{told}, collect[string](db, "SELECT format('%s %s: %s', kind, name, advice) FROM mesh.check_installation()"))
	db.Exec("ALTER TABLE mesh.alembic_version SET SCHEMA public")
	require.Empty(t, collect[string](db, whatDiffers))
}

// A migration that fails over what others have changed does not hide it: then it is looked for.
func TestAFailedMigrationTellsWhatOthersHaveChanged(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	db.Exec(`ALTER TABLE mesh.resources RENAME labels TO lables;
		ALTER TABLE mesh.settings DISABLE TRIGGER USER`)
	before := collect[string](db, whatDiffers)
	require.Contains(t, before, "column mesh.resources.labels is missing")
	for range 2 {
		err := migration.UpTelling(t.Context(), url, storetest.Quietly)
		require.ErrorContains(t, err, `column "labels" of relation "mesh.resources" does not exist`)
		require.ErrorContains(t, err, fmt.Sprintf("somebody has changed: %d. Look at them first: SELECT * FROM mesh.check_installation()", len(before)))
		require.ElementsMatch(t, before, collect[string](db, whatDiffers))
	}
	db.Exec("ALTER TABLE mesh.resources RENAME lables TO labels")
	require.NotEmpty(t, collect[string](db, whatDiffers), "the triggers")
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.Empty(t, collect[string](db, whatDiffers))

	// Of a schema that is half migrated there is nothing to compare with, which is told.
	db.Exec("INSERT INTO mesh.schema_version (version_id, is_applied) VALUES (1000, true)")
	require.Equal(t, []string{"schema mesh is between two versions"}, collect[string](db, whatDiffers))
}

// Only the owner and servers look.
func TestTenantsDoNotCheckTheInstallation(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	require.Equal(t, "42501", y.tenant("tenant", [2]string{"a", "write"}).Refused(whatDiffers).Code)
	server := y.role("server")
	y.owner.Exec("SELECT mesh.grant_server($1)", server)
	require.Empty(t, collect[string](y.as(server), whatDiffers))
}

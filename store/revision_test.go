package store_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// history is what a revision did, as "operation name".
func (s session) history(revision int64) []string {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), "SELECT operation || ' ' || name FROM mesh.history WHERE revision = $1 ORDER BY name", revision)
	require.NoError(s.T, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.T, err)
	return list
}

func TestOnlyChangesMakeRevisions(t *testing.T) {
	t.Parallel()
	insert := func(name string) string {
		return `INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', '` + name + `', '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}');`
	}
	weigh := func(host string) string {
		return `UPDATE mesh.resources SET spec = '{"hosts": ["` + host + `"], "http": [{"redirect": {"uri": "/"}}]}' WHERE name = 'there';`
	}
	for _, test := range []struct {
		name, sql string
		want      []string // nil: no revision
	}{
		{"an insert", insert("x"), []string{"create x"}},
		{"an update", weigh("b"), []string{"update there"}},
		{"a delete", "DELETE FROM mesh.resources;", []string{"delete there"}},
		{"labels alone", `UPDATE mesh.resources SET labels = '{"a": "b"}'`, []string{"update there"}},
		{"several statements", insert("x") + weigh("b") + insert("y"), []string{"update there", "create x", "create y"}},
		{"the same twice", weigh("b") + weigh("c"), []string{"update there"}},
		{"a rename", "UPDATE mesh.resources SET name = 'elsewhere'", []string{"create elsewhere", "delete there"}},
		{"a delete and an insert of the same", "DELETE FROM mesh.resources;" + insert("there") + weigh("b"), []string{"update there"}},
		{"an upsert", `INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', 'there', '{"hosts": ["b"], "http": [{"redirect": {"uri": "/"}}]}'), ('VirtualService', 'x', '{"hosts": ["b"], "http": [{"redirect": {"uri": "/"}}]}')
			ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, []string{"update there", "create x"}},
		{"both in one statement", `WITH gone AS (DELETE FROM mesh.resources RETURNING *)
			INSERT INTO mesh.resources (kind, name, spec) SELECT kind, 'new', spec FROM gone`, []string{"create new", "delete there"}},
		{"a savepoint taken back", insert("x") + "SAVEPOINT s;" + insert("y") + weigh("b") + "ROLLBACK TO s;" + insert("z"), []string{"create x", "create z"}},
		{"a savepoint kept", "SAVEPOINT s;" + insert("x") + "RELEASE s;" + insert("y"), []string{"create x", "create y"}},
		{"constraints checked early", insert("x") + "SET CONSTRAINTS ALL IMMEDIATE;" + insert("y") + weigh("b"), []string{"update there", "create x", "create y"}},
		{"constraints checked early and late", "SET CONSTRAINTS ALL IMMEDIATE;" + insert("x") + "SET CONSTRAINTS ALL DEFERRED;" + insert("y") + weigh("b") + weigh("c"), []string{"update there", "create x", "create y"}},
		{"constraints checked early, taken back", insert("x") + "SAVEPOINT s; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO s;" + insert("y"), []string{"create x", "create y"}},

		{"an update that changes nothing", "UPDATE mesh.resources SET spec = spec", nil},
		{"writing back what was read", "UPDATE mesh.resources SET spec = spec, generation = generation, created_at = created_at", nil},
		{"there and back", weigh("b") + weigh("a"), nil},
		{"come and gone", insert("x") + "DELETE FROM mesh.resources WHERE name = 'x';", nil},
		{"gone and come", "DELETE FROM mesh.resources;" + insert("there"), nil},
		{"nothing touched", "DELETE FROM mesh.resources WHERE name = 'x'", nil},
		{"all taken back", "SAVEPOINT s;" + insert("x") + "ROLLBACK TO s;", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := connect(t, pgtest.New(t))
			db.Exec(insert("there"))
			db.Exec("BEGIN;" + test.sql + ";COMMIT")
			if test.want == nil {
				require.Equal(t, int64(1), db.Newest())
				require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh.readable_resources WHERE revision = 1 AND generation = 1"), "the row stays as it was")
				require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.transactions WHERE revision IS NULL"))
				return
			}
			require.Equal(t, int64(2), db.Newest(), "one transaction is one revision")
			require.Equal(t, test.want, db.history(2))
			require.Equal(t, len(test.want), value[int](db, "SELECT size FROM mesh.revisions WHERE revision = 2"))
			require.Zero(t, value[int](db, `SELECT count(*) FROM mesh.readable_resources r JOIN mesh.history h USING (kind, api_group, namespace, name)
				WHERE h.revision = 2 AND r.revision <> 2`), "the rows bear their revision")
		})
	}
}

func TestGenerationCountsChangesOfTheSpec(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	require.Equal(t, int64(1), value[int64](db, "SELECT generation FROM mesh.resources"))
	db.Put("x", "b")
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources"))
	db.Exec(`UPDATE mesh.resources SET labels = '{"a": "b"}'`)
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources"))
	require.Equal(t, int64(3), value[int64](db, "SELECT revision FROM mesh.readable_resources"))
}

func TestCopyIsOneRevision(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	rows := [][]any{{"VirtualService", "a", virtualService("a")}, {"VirtualService", "b", virtualService("b")}}
	n, err := db.Conn.CopyFrom(t.Context(), pgx.Identifier{"mesh", "resources"}, []string{"kind", "name", "spec"}, pgx.CopyFromRows(rows))
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	require.Equal(t, []string{"create a", "create b"}, db.history(1))
}

func TestOperationsThatAreAlwaysRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")

	err := db.Refused("TRUNCATE mesh.resources")
	require.Equal(t, "MS003", err.Code)
	require.Contains(t, err.Hint, "DELETE FROM mesh.resources")

	err = db.Refused("UPDATE mesh.resources SET generation = 7")
	require.Equal(t, "MS003", err.Code)
	require.Equal(t, "VirtualService default/x: generation, created_at, updated_at, rules and xid are set by themselves", err.Message)
	require.Equal(t, int64(1), db.Newest())
}

func TestRepeatableReadLosesToWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	slow, quick := connect(t, url), connect(t, url)
	slow.Exec("BEGIN ISOLATION LEVEL REPEATABLE READ")
	slow.Put("x", "a")
	quick.Put("y", "b")
	require.Equal(t, "40001", slow.Refused("COMMIT").Code)
	require.Equal(t, []string{"create y"}, quick.history(1))

	slow.Exec("BEGIN ISOLATION LEVEL SERIALIZABLE")
	slow.Put("x", "a")
	slow.Exec("COMMIT")
	require.Equal(t, []string{"create x"}, quick.history(2))
}

// A role that owns nothing but its database can do everything; a role that it lets write cannot
// pose as another.
func TestRoles(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	admin := connect(t, url)
	role := value[string](admin, "SELECT 'owner_' || current_database()")
	admin.Exec("CREATE ROLE " + role + " LOGIN PASSWORD 'owner'; CREATE ROLE " + role + "_writer LOGIN PASSWORD 'writer'")
	t.Cleanup(func() {
		admin.Exec("DROP OWNED BY " + role + "_writer; DROP OWNED BY " + role + "; DROP ROLE " + role + "_writer; DROP ROLE " + role)
	})
	admin.Exec("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + role + "', current_database()); END $$")

	as := func(name, password string) string {
		config := admin.Conn.Config()
		return (&pgtest.Login{Host: config.Host, Port: config.Port, Database: config.Database, User: name, Password: password}).URL()
	}
	require.NoError(t, migration.Up(t.Context(), as(role, "owner")))
	owner := connect(t, as(role, "owner"))
	owner.Exec("SET mesh.author = 'alice'")
	owner.Put("x", "a")
	owner.Exec("SELECT mesh.grant_namespace($1, 'default', 'write')", role+"_writer")

	writer := connect(t, as(role+"_writer", "writer"))
	writer.Exec("SET mesh.author = 'alice'")
	writer.Put("x", "b")
	require.Equal(t, "42501", writer.Refused("DELETE FROM mesh_internal.changes").Code)
	require.Equal(t, "alice", value[string](owner, "SELECT author FROM mesh.revisions WHERE revision = 1"))
	require.Equal(t, role+"_writer", value[string](owner, "SELECT author FROM mesh.revisions WHERE revision = 2"))
	require.NoError(t, migration.Down(t.Context(), as(role, "owner"), 0, storetest.Quietly))
}

// A row takes its generation along when it is renamed. Where it comes to be what another one was,
// of the same revision, nothing else tells that it is not.
func TestARowRenamedToWhatWasThereIsAsThatWas(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("there", "b")
	db.Exec("BEGIN")
	db.Put("there", "a")
	db.Put("other", "a")
	db.Exec("COMMIT")
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources WHERE name = 'there'"))
	db.Exec(`BEGIN; DELETE FROM mesh.resources WHERE name = 'there'; UPDATE mesh.resources SET name = 'there' WHERE name = 'other'; COMMIT`)
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.readable_resources WHERE name = 'there' AND revision = 2"))
}

func TestUsersCannotPretendToBeTheCommit(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	for _, sql := range []string{"UPDATE mesh.resources SET generation = 7", `UPDATE mesh.resources SET spec = '{"hosts": ["b"]}'`} {
		db.Exec("SET mesh.numbering = 'on'")
		err := db.Refused(sql)
		require.Equal(t, "MS003", err.Code)
		require.Contains(t, err.Hint, "RESET mesh.numbering")
	}
	db.Exec("RESET mesh.numbering")
	db.Put("x", "b")
	require.Equal(t, int64(2), db.Newest())
}

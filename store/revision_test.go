package store_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store"
)

// newest is the last revision there is.
func (s session) newest() int64 {
	return value[int64](s, "SELECT coalesce(max(revision), 0) FROM mesh.revisions")
}

// refused runs SQL that the database must refuse.
func (s session) refused(sql string, args ...any) *pgconn.PgError {
	s.t.Helper()
	_, err := s.conn.Exec(context.Background(), sql, args...)
	var pg *pgconn.PgError
	require.ErrorAs(s.t, err, &pg, sql)
	return pg
}

// history is what a revision did, as "operation name".
func (s session) history(revision int64) []string {
	s.t.Helper()
	rows, err := s.conn.Query(context.Background(), "SELECT operation || ' ' || name FROM mesh.history WHERE revision = $1 ORDER BY name", revision)
	require.NoError(s.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
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
			db.exec(insert("there"))
			db.exec("BEGIN;" + test.sql + ";COMMIT")
			if test.want == nil {
				require.Equal(t, int64(1), db.newest())
				require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh.readable_resources WHERE revision = 1 AND generation = 1"), "the row stays as it was")
				require.Zero(t, value[int](db, "SELECT count(*) FROM mesh.transactions WHERE revision IS NULL"))
				return
			}
			require.Equal(t, int64(2), db.newest(), "one transaction is one revision")
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
	db.put("x", "a")
	require.Equal(t, int64(1), value[int64](db, "SELECT generation FROM mesh.resources"))
	db.put("x", "b")
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources"))
	db.exec(`UPDATE mesh.resources SET labels = '{"a": "b"}'`)
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources"))
	require.Equal(t, int64(3), value[int64](db, "SELECT revision FROM mesh.readable_resources"))
}

func TestCopyIsOneRevision(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	rows := [][]any{{"VirtualService", "a", virtualService("a")}, {"VirtualService", "b", virtualService("b")}}
	n, err := db.conn.CopyFrom(t.Context(), pgx.Identifier{"mesh", "resources"}, []string{"kind", "name", "spec"}, pgx.CopyFromRows(rows))
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	require.Equal(t, []string{"create a", "create b"}, db.history(1))
}

func TestOperationsThatAreAlwaysRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.put("x", "a")

	err := db.refused("TRUNCATE mesh.resources")
	require.Equal(t, "MS003", err.Code)
	require.Contains(t, err.Hint, "DELETE FROM mesh.resources")

	err = db.refused("UPDATE mesh.resources SET generation = 7")
	require.Equal(t, "MS003", err.Code)
	require.Equal(t, "VirtualService default/x: generation, created_at, updated_at, rules and xid are set by themselves", err.Message)
	require.Equal(t, int64(1), db.newest())
}

func TestRepeatableReadLosesToWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	slow, quick := connect(t, url), connect(t, url)
	slow.exec("BEGIN ISOLATION LEVEL REPEATABLE READ")
	slow.put("x", "a")
	quick.put("y", "b")
	require.Equal(t, "40001", slow.refused("COMMIT").Code)
	require.Equal(t, []string{"create y"}, quick.history(1))

	slow.exec("BEGIN ISOLATION LEVEL SERIALIZABLE")
	slow.put("x", "a")
	slow.exec("COMMIT")
	require.Equal(t, []string{"create x"}, quick.history(2))
}

// A role that owns nothing but its database can do everything; a role that it lets write cannot pose as another.
func TestRoles(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	admin := connect(t, url)
	role := value[string](admin, "SELECT 'owner_' || current_database()")
	admin.exec("CREATE ROLE " + role + " LOGIN PASSWORD 'owner'; CREATE ROLE " + role + "_writer LOGIN PASSWORD 'writer'")
	t.Cleanup(func() {
		admin.exec("DROP OWNED BY " + role + "_writer; DROP OWNED BY " + role + "; DROP ROLE " + role + "_writer; DROP ROLE " + role)
	})
	admin.exec("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + role + "', current_database()); END $$")

	as := func(name, password string) string {
		config := admin.conn.Config()
		return (&pgtest.Login{Host: config.Host, Port: config.Port, Database: config.Database, User: name, Password: password}).URL()
	}
	require.NoError(t, store.Migrate(t.Context(), as(role, "owner")))
	owner := connect(t, as(role, "owner"))
	owner.exec("SET mesh.author = 'alice'")
	owner.put("x", "a")
	owner.exec("SELECT mesh.grant_namespace($1, 'default', 'write')", role+"_writer")

	writer := connect(t, as(role+"_writer", "writer"))
	writer.exec("SET mesh.author = 'alice'")
	writer.put("x", "b")
	require.Equal(t, "42501", writer.refused("DELETE FROM mesh.changes").Code)
	require.Equal(t, "alice", value[string](owner, "SELECT author FROM mesh.revisions WHERE revision = 1"))
	require.Equal(t, role+"_writer", value[string](owner, "SELECT author FROM mesh.revisions WHERE revision = 2"))
	require.NoError(t, store.MigrateDown(t.Context(), as(role, "owner"), 0, quietly))
}

// A row takes its generation along when it is renamed. Where it comes to be what another one was, of the same revision, nothing else
// tells that it is not.
func TestARowRenamedToWhatWasThereIsAsThatWas(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.put("there", "b")
	db.exec("BEGIN")
	db.put("there", "a")
	db.put("other", "a")
	db.exec("COMMIT")
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.resources WHERE name = 'there'"))
	db.exec(`BEGIN; DELETE FROM mesh.resources WHERE name = 'there'; UPDATE mesh.resources SET name = 'there' WHERE name = 'other'; COMMIT`)
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.readable_resources WHERE name = 'there' AND revision = 2"))
}

func TestUsersCannotPretendToBeTheCommit(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.put("x", "a")
	for _, sql := range []string{"UPDATE mesh.resources SET generation = 7", `UPDATE mesh.resources SET spec = '{"hosts": ["b"]}'`} {
		db.exec("SET mesh.numbering = 'on'")
		err := db.refused(sql)
		require.Equal(t, "MS003", err.Code)
		require.Contains(t, err.Hint, "RESET mesh.numbering")
	}
	db.exec("RESET mesh.numbering")
	db.put("x", "b")
	require.Equal(t, int64(2), db.newest())
}

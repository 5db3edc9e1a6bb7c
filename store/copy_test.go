package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// A table without one refuses each UPDATE and DELETE as soon as somebody publishes it.
func TestEveryTableHasAReplicaIdentity(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db := connect(t, url)
	require.Empty(t, collect[string](db, `SELECT c.relname FROM pg_class c
		WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p') AND c.relreplident <> 'f'
			AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident))
		ORDER BY 1`), "give it a primary key, or REPLICA IDENTITY FULL")
	require.Empty(t, collect[string](db, `SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p') AND c.relreplident = 'f' AND a.atttypid = 'jsonpath'::regtype`),
		"a subscriber cannot compare rows by such a column: give the table a key")
}

// Upgrades of Postgres by logical replication, and whoever else subscribes to the tables.
func TestAMeshIsReplicatedLogicallyAndTheCopyPromoted(t *testing.T) {
	t.Parallel()
	copied := pgtest.Copied(t)
	from, to := connect(t, copied.From), connect(t, copied.To)
	for _, name := range []string{"a", "b", "c"} {
		from.Put(name, "x")
	}
	from.Put("a", "y")
	from.Exec("DELETE FROM mesh.resources WHERE name = 'c'")
	from.Exec("INSERT INTO mesh.secrets (name, data) VALUES ('s', mesh.secret_data('{\"password\": \"x\"}'))")
	from.Exec("SELECT mesh.create_token('reader', sha256('reader'), '{read}')")
	from.Exec("UPDATE mesh_internal.installation SET registry_digest = ''")
	require.NoError(t, migration.Up(t.Context(), copied.From), "which deletes the rows of every table of the registry")
	copied.CaughtUp()
	requireSame(t, tenancy{from, copied.From}, tenancy{to, copied.To}, "logical replication")

	copied.Promote()
	last := from.Newest()
	followed := follow(t, openURL(t, copied.To), last-1)
	require.Equal(t, last, (<-followed).Revision, "the copy has the history")
	to.Put("b", "z")
	batch := <-followed
	require.Equal(t, last+1, batch.Revision)
	require.Len(t, batch.Changes, 1)
	require.NotNil(t, batch.Changes[0].Before)
	to.Exec("DELETE FROM mesh.resources")
	require.Equal(t, last+2, (<-followed).Revision)
	to.Exec("SELECT mesh.create_token('another', sha256('another'), '{read}')")
	require.Equal(t, []string{"a", "b"}, collect[string](to, "SELECT name FROM mesh.as_of($1::bigint) ORDER BY 1", last))
	require.Zero(t, to.adopt())
}

// An id that is taken would write the transaction into another one, and its revision would be lost.
func TestASequenceThatIsBehindCostsNothing(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db := connect(t, url)
	for _, host := range []string{"x", "y", "z"} {
		db.Put("a", host)
	}
	db.Exec("ALTER SEQUENCE mesh_internal.transactions_id_seq RESTART")

	db.Put("b", "x")
	require.Equal(t, []string{"1 a", "2 a", "3 a", "4 b"}, collect[string](db, "SELECT revision || ' ' || name FROM mesh.history ORDER BY 1"))
	require.Zero(t, value[int](db, "SELECT mesh.advance_sequences()"))
}

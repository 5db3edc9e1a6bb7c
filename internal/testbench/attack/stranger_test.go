package attack

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A role that may connect, and nothing else, reaches no row and no function of the schema.
func TestAStrangerToTheDatabaseReachesNothing(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	stranger := m.tenant("stranger")
	rows, err := m.owner.Query(t.Context(), `
		SELECT format('SELECT * FROM %s', oid::regclass) FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND relkind IN ('r', 'v')
		UNION ALL
		SELECT format('SELECT %s.%I(%s)', pronamespace::regnamespace, proname, (SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY i) FROM unnest(proargtypes) WITH ORDINALITY a (t, i)))
		FROM pg_proc WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND prorettype <> 'trigger'::regtype AND prokind = 'f'`)
	require.NoError(t, err)
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(statements), 100)
	for _, sql := range statements {
		require.Contains(t, refused(t, stranger, sql), "permission denied for schema mesh", sql)
	}
}

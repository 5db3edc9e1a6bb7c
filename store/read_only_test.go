package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// A view is made for writing, and then has a key, or refuses. Postgres itself would write through those
// that are simple enough.
func TestViewsForReadingAreNotWritten(t *testing.T) {
	t.Parallel()
	_, owner, url := owned(t)
	owner.Put("x", "a")
	views := collect[string](owner, `SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'mesh'::regnamespace AND c.relkind = 'v'
		AND NOT EXISTS (SELECT FROM mesh.view_keys k WHERE k.view = c.relname) ORDER BY 1`)
	require.Subset(t, views, []string{"revisions", "history", "grants", "view_keys", "authorities", "transactions"})
	for _, view := range views {
		column := value[string](owner, "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = ('mesh.' || quote_ident($1))::regclass AND attnum = 1", view)
		for _, sql := range []string{"DELETE FROM mesh.%s WHERE false", "UPDATE mesh.%s SET %s = NULL", "INSERT INTO mesh.%s (%s) VALUES (NULL)"} {
			sql = fmt.Sprintf(sql+" -- %[2]s", view, column)
			refused := owner.Refused(sql)
			require.Equal(t, "MS003 the view mesh."+view+" is for reading", refused.Code+" "+refused.Message, sql)
			require.NotEmpty(t, refused.Hint)
		}
	}
	require.Contains(t, owner.Refused("DELETE FROM mesh.revisions").Hint, "mesh.prune(")
	require.Contains(t, owner.Refused("DELETE FROM mesh.grants").Hint, "mesh.revoke_namespace")
	require.Equal(t, int64(1), owner.Newest())
	owner.Exec("CREATE VIEW mesh.mine AS SELECT * FROM mesh.settings; DROP TRIGGER refuse_row ON mesh.revisions")
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	owner.Exec("DELETE FROM mesh.mine; DROP VIEW mesh.mine")
	require.Equal(t, "MS003", owner.Refused("DELETE FROM mesh.revisions").Code)
	require.Empty(t, collect[string](owner, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind = 'v'
		AND pg_relation_is_updatable(c.oid, false) <> 0 AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid)`), "nor those inside")
}

// Kinds and rules are those of the program. Without a rule nothing would be checked by it, and nobody
// would be told.
func TestTheRegistryIsWrittenByMigrationsAlone(t *testing.T) {
	t.Parallel()
	_, owner, url := owned(t)
	tables := []string{"mesh.kinds", "mesh_internal.schema_types", "mesh.schema_fields", "mesh_internal.schema_parts", "mesh.formats", "mesh.rules", "mesh_internal.unsupported"}
	written := func() (counts []int) {
		for _, table := range tables {
			counts = append(counts, value[int](owner, "SELECT count(*) FROM "+table))
		}
		return counts
	}
	before := written()
	for _, table := range tables {
		for _, sql := range []string{"DELETE FROM " + table, "TRUNCATE " + table, "INSERT INTO " + table + " SELECT * FROM " + table + " LIMIT 1"} {
			refused := owner.Refused(sql)
			require.Equal(t, "MS003 the table "+table+" is written by migrations alone", refused.Code+" "+refused.Message)
			require.Contains(t, refused.Hint, "mcp-server migrate up")
		}
	}
	require.Equal(t, "MS003", owner.Refused("SET mesh.registry = 'on'; UPDATE mesh.rules SET reason = reason").Code)
	owner.Exec("UPDATE mesh_internal.installation SET registry_digest = 'of another program'")
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	require.Equal(t, before, written())
	require.Equal(t, "MS003", connect(t, url).Refused("DELETE FROM mesh.rules").Code)
}

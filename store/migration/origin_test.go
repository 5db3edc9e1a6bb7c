package migration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// Rows could claim to be of a registry before that was refused. An upgrade lists those that do, and
// changes nothing of them.
func TestAnUpgradeListsRowsThatClaimToBeOfARegistry(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Put("mine", "a.example")
	db.Put("claims", "a.example")
	db.Exec(`SET session_replication_role = replica`)
	db.Exec(`UPDATE mesh.resources SET annotations = '{"pgmesh.io/origin-rank": "7"}' WHERE name = 'claims'`)
	db.Exec(`RESET session_replication_role`)
	require.Empty(t, storetest.Collect[string](db, "SELECT name FROM mesh.unsound"), "it is as if it had passed")
	require.NoError(t, migration.Down(t.Context(), url, 42, storetest.Quietly))
	require.NoError(t, migration.Up(t.Context(), url))
	require.Equal(t, []string{`claims metadata.annotations["pgmesh.io/origin-rank"]`}, storetest.Collect[string](db, "SELECT name || ' ' || path FROM mesh.unsound"))
	require.Equal(t, int64(2), db.Newest(), "it is no revision")
	db.Exec("UPDATE mesh.resources SET annotations = '{}' WHERE name = 'claims'")
	require.Empty(t, storetest.Collect[string](db, "SELECT name FROM mesh.unsound"))
}

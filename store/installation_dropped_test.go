package store_test

import (
	"slices"
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
		"mesh.resources.annotations":             "ALTER TABLE mesh.resources DROP COLUMN annotations CASCADE",
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

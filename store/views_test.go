package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/pgtest"
)

func TestViewPerKind(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	require.Empty(t, value[[]string](db, `SELECT coalesce(array_agg(kind), '{}') FROM mesh.kinds k WHERE to_regclass('mesh.' || mesh.view_name(k)) IS NULL`))
}

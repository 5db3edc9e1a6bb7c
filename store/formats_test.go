package store_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func TestFormatsInSQL(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	text, err := os.ReadFile("../kinds/testdata/formats.yaml")
	require.NoError(t, err)
	var examples map[string]struct{ Good, Bad []string }
	require.NoError(t, yaml.Unmarshal(text, &examples))
	for name, e := range examples {
		const strays = "SELECT coalesce(array_agg(s), '{}') FROM unnest($2::text[]) s WHERE mesh_internal.has_format($1, s) <> $3"
		require.Empty(t, value[[]string](db, strays, name, e.Good, true), "%s: good ones that are refused", name)
		require.Empty(t, value[[]string](db, strays, name, e.Bad, false), "%s: bad ones that are accepted", name)
	}
}

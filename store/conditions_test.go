package store_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// The kinds that have the condition ResolvedRefs are those in which names are read.
func TestKindsThatNameOthersAreThoseThatAreRead(t *testing.T) {
	t.Parallel()
	s := connect(t, pgtest.New(t))
	read := collect[string](s, `SELECT m[1] || '.' || m[2] FROM pg_proc p, regexp_matches(p.prosrc, 'kind = ''(\w+)'' AND api_group = ''([^'']+)''', 'g') m
		WHERE p.pronamespace = 'mesh_internal'::regnamespace AND p.proname = 'names_in' ORDER BY 1`)
	require.Greater(t, len(read), 10)
	require.Equal(t, read, collect[string](s, "SELECT kind || '.' || api_group FROM mesh.kinds WHERE mesh_internal.refers_to_others(kind, api_group) ORDER BY 1"))
}

// A code that no problem has any more would be left behind here.
func TestCodesOfConditionsAreThoseOfProblems(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(reference)
	require.NoError(t, err)
	for _, code := range collect[string](connect(t, pgtest.New(t)), "SELECT code FROM mesh_internal.problem_codes") {
		require.Contains(t, string(doc), "`"+code+"`")
	}
}

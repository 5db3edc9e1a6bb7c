package resources_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	run := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append([]string{"schema"}, args...)...)
	}
	folder := filepath.Join(t.TempDir(), "schemas")
	require.Regexp(t, `^\d+ schemas are in .*; .*all.json is for files of any kind\n$`, run("--all", folder).Out)
	one, err := os.ReadFile(filepath.Join(folder, "networking.istio.io", "virtualservice_v1.json"))
	require.NoError(t, err)
	require.Equal(t, string(one), run("vs").Out)
	var tree struct {
		Properties  map[string]struct{ Enum []string }
		Definitions map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	require.NoError(t, json.Unmarshal(one, &tree))
	require.Contains(t, tree.Properties["apiVersion"].Enum, "networking.istio.io/v1")
	require.Equal(t, "Retry policy for HTTP requests.", tree.Definitions["istio.networking.v1alpha3.HTTPRoute"].Properties["retries"].Description)
	for _, args := range [][]string{nil, {"nothing"}, {"vs", "--all", folder}, {"vs", "dr"}} {
		require.Equal(t, 2, run(args...).Code, args)
	}
}

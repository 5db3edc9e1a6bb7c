package resources_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// What a registry has is told with its origin, and when the registry is away, as stale.
func TestDescribeTellsOfRegistries(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "services")
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one.yaml"), []byte(`services: [{name: web, hosts: [web.example.com], ports: [{number: 80, protocol: HTTP}]}]`), 0o644))
	address, _ := clitest.Launch(t, serve.Options{Database: pgtest.New(t), Registries: serve.Registries{URLs: []string{"files://" + folder + "?name=inventory"}, Wait: time.Minute}})
	require.Contains(t, clitest.At(t, address, "get", "serviceentries").Out, "inventory.web")
	described := clitest.At(t, address, "describe", "se/inventory.web")
	require.Zero(t, described.Code, described.Err)
	require.Contains(t, described.Out, "Origin:        the registry inventory, one.yaml\n")
	require.NotContains(t, described.Out, "Problems:")
	require.NoError(t, os.Rename(folder, folder+".away"))
	poll.Eventually(t, func(context.Context) error {
		if out := clitest.At(t, address, "describe", "se/inventory.web").Out; !strings.Contains(out, "warning  stale-registry  what the registry inventory has is as it was at 20") {
			return errors.New(out)
		}
		return nil
	})
	require.Contains(t, clitest.At(t, address, "problems", "-A").Out, "stale-registry")
	refused := clitest.At(t, address, "delete", "se/inventory.web")
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Err, "comes from the registry inventory (one.yaml): it can be changed there alone")
}

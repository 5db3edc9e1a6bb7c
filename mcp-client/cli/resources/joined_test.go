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
	require.Contains(t, clitest.At(t, address, "services", "web.example.com").Err, "warning: what the registry inventory has is as it was at 20")
	refused := clitest.At(t, address, "delete", "se/inventory.web")
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Err, "comes from the registry inventory (one.yaml): it can be changed there alone")
}

// bridge serves a registry and nothing else.
func bridge(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "one.yaml"), []byte(`services:
- name: web
  hosts: [web.example.com]
  ports: [{number: 80, protocol: HTTP}]
  instances: [{address: 10.0.0.1, labels: {version: v1}}, {address: 10.0.0.2, health: unhealthy, locality: eu/a}]
- {name: api, hosts: [api.example.com], ports: [{number: 80, protocol: HTTP}]}
`), 0o600))
	address, _ := clitest.Launch(t, serve.Options{Registries: serve.Registries{URLs: []string{"files://" + folder + "?name=inventory"}, Wait: time.Minute}})
	return address
}

// A server without a database has all that MCP has, and says why it has nothing else.
func TestABridgeIsReadAsAnyServer(t *testing.T) {
	t.Parallel()
	address := bridge(t)
	got := clitest.At(t, address, "get", "serviceentries")
	require.Zero(t, got.Code, got.Err)
	require.Empty(t, got.Err)
	require.Regexp(t, `NAME +HOSTS +PORTS +RESOLUTION +ORIGIN +AGE\n`, got.Out)
	require.Regexp(t, `inventory.web +web.example.com +80 +STATIC +inventory `, got.Out)
	require.Empty(t, clitest.At(t, address, "get", "serviceentries", "--origin", "database", "-o", "name").Out)
	require.Contains(t, clitest.At(t, address, "get", "serviceentries", "--origin", "inventory", "-o", "name").Out, "inventory.web")
	described := clitest.At(t, address, "describe", "se/inventory.web")
	require.Zero(t, described.Code, described.Err)
	require.Contains(t, described.Out, "Origin:        the registry inventory, one.yaml\n")
	refused := clitest.At(t, address, "delete", "se/inventory.web")
	require.NotZero(t, refused.Code)
	require.Contains(t, refused.Err, "has no database")
}

func TestServicesAreListedWithTheirOrigin(t *testing.T) {
	t.Parallel()
	address := bridge(t)
	all := clitest.At(t, address, "services")
	require.Zero(t, all.Code, all.Err)
	require.Equal(t, "HOST              NAMESPACE   PORTS     ENDPOINTS   HEALTHY   ORIGIN\n"+
		"api.example.com   default     80/HTTP   0           0         inventory\n"+
		"web.example.com   default     80/HTTP   2           1         inventory\n", all.Out)
	one := clitest.At(t, address, "services", "WEB.example.com")
	require.Zero(t, one.Code, one.Err)
	require.NotContains(t, one.Out, "api.example.com")
	require.Contains(t, one.Out, "\nHOST              ADDRESS    HEALTH      LOCALITY   LABELS\n"+
		"web.example.com   10.0.0.1   healthy     -          version=v1\nweb.example.com   10.0.0.2   unhealthy   eu/a       -\n")
	require.Equal(t, "api.example.com\nweb.example.com\n", clitest.At(t, address, "services", "-o", "name").Out)
	require.Equal(t, "10.0.0.1 10.0.0.2", clitest.At(t, address, "services", "web.example.com", "-o", "jsonpath={[0].endpoints[*].address}").Out)
	completed := clitest.Run(t.Context(), "", nil, "__complete", "services", "--server", address, "--insecure", "")
	require.Equal(t, "api.example.com\nweb.example.com\n:4\n", completed.Out)
	require.Empty(t, clitest.At(t, address, "services", "-n", "elsewhere").Out)
	missing := clitest.At(t, address, "services", "wbe.example.com")
	require.NotZero(t, missing.Code)
	require.Contains(t, missing.Err, `no service has the host "wbe.example.com" (did you mean "web.example.com"?)`)
}

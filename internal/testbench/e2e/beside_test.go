package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// Discovery follows a server with a database and a bridge at once. The database's server counts first
// for a host that both have, whatever their ranks; the bridge's services stay when the bridge is gone.
func TestABridgeIsFollowedBesideAServer(t *testing.T) {
	t.Parallel()
	own, far := servicesFolder(t), servicesFolder(t)
	bridge, err := stack.NewBridge(bin, t.TempDir(), "files://"+servicesFolder(t).path, "files://"+far.path+"?name=far")
	require.NoError(t, err)
	require.NoError(t, bridge.MCPServer.Start())
	t.Cleanup(bridge.MCPServer.Stop)
	database := pgtest.Server(t).URL
	control := newStack(t, database)
	control.ServerFlags("--registry", "files://"+servicesFolder(t).path, "--registry", "files://"+servicesFolder(t).path+"?name=third",
		"--registry", "files://"+own.path+"?name=own")
	control.DiscoveryFlags("--mcp-beside", bridge.MCP)
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, control.Start(ctx))
	m := meshOn(t, control, database)
	first, further, third := newBackend(t, "own", nil), newBackend(t, "far", nil), newBackend(t, "later", nil)

	far.put(m.port, further)
	m.answers("web.mesh", "far")
	own.put(m.port, first)
	m.answeredBy("web.mesh", "own")
	far.put(m.port, third)
	own.empty()
	m.answeredBy("web.mesh", "later")

	bridge.MCPServer.Kill()
	says(t, control.Discovery.Log, "lost.*"+bridge.MCP)
	own.put(m.port, first)
	m.answeredBy("web.mesh", "own")
	own.empty()
	m.answeredBy("web.mesh", "later")
	require.NoError(t, bridge.MCPServer.Start())
	far.put(m.port, further)
	m.answeredBy("web.mesh", "far")
}

// A bridge that was started while its registry is away serves without it. Discovery knows, and keeps what
// the registry had until the bridge has read it.
func TestABridgeThatHasNotReadItsRegistryTakesNothingAway(t *testing.T) {
	t.Parallel()
	far := servicesFolder(t)
	bridge, err := stack.NewBridge(bin, t.TempDir(), "files://"+far.path+"?name=far")
	require.NoError(t, err)
	bridge.ServerFlags("--registry-wait", "100ms")
	require.NoError(t, bridge.MCPServer.Start())
	t.Cleanup(bridge.MCPServer.Stop)
	database := pgtest.Server(t).URL
	control := newStack(t, database)
	control.DiscoveryFlags("--mcp-beside", bridge.MCP)
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, control.Start(ctx))
	m := meshOn(t, control, database)
	far.put(m.port, newBackend(t, "far", nil))
	m.answers("web.mesh", "far")

	require.NoError(t, os.Rename(far.path, far.path+".away"))
	bridge.MCPServer.Kill()
	require.NoError(t, bridge.MCPServer.Start())
	eventually(t, func(ctx context.Context) error { return said(ctx, control.Discovery, "1 resources of registries stay") })
	m.answers("web.mesh", "far")

	require.NoError(t, os.Remove(filepath.Join(far.path+".away", "web.yaml")))
	require.NoError(t, os.Rename(far.path+".away", far.path))
	eventually(t, func(ctx context.Context) error {
		if m.status(ctx, "web.mesh", http.StatusOK) == nil {
			return errors.New("it is still called, and has left the registry")
		}
		return nil
	})
}

// said is nil once /readyz of a program has these words.
func said(ctx context.Context, p *stack.Program, words string) error {
	_, text, err := fetch(ctx, "http://"+p.HTTP()+"/readyz")
	if err == nil && !strings.Contains(text, words) {
		err = fmt.Errorf("/readyz says: %s", text)
	}
	return err
}

// services is the folder of a registry of files.
type services struct {
	t    *testing.T
	path string
}

func servicesFolder(t *testing.T) services {
	t.Helper()
	return services{t, t.TempDir()}
}

// put has the backend serve web.mesh.
func (s services) put(port string, b *backend) {
	s.t.Helper()
	s.write(fmt.Sprintf("services: [{name: web, hosts: [web.mesh], ports: [{name: http, number: %s, protocol: HTTP}], instances: [{address: 127.0.0.1, ports: {http: %s}}]}]", port, b.port))
}

func (s services) empty() { s.write("services: []") }

func (s services) write(text string) {
	s.t.Helper()
	written := filepath.Join(s.t.TempDir(), "web.yaml")
	require.NoError(s.t, os.WriteFile(written, []byte(text), 0o644))
	require.NoError(s.t, os.Rename(written, filepath.Join(s.path, "web.yaml")))
}

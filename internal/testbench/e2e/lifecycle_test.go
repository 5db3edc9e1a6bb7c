package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// Programs that are started in the wrong order wait for each other, and say what they wait for.
func TestProgramsStartInAnyOrder(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	server.Stop()
	control := newStack(t, server.URL)

	require.NoError(t, control.Discovery.Start())
	waits(t, control.Discovery, "no configuration has come from the MCP server")
	require.NoError(t, control.MCPServer.Start())
	waits(t, control.MCPServer, "database")
	waits(t, control.Discovery, "no configuration has come from the MCP server")
	server.Start()

	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, control.MCPServer.Ready(ctx))
	require.NoError(t, control.Discovery.Ready(ctx))
	m := meshOn(t, control, server.URL)
	m.commit(m.service(reviews, backends(t, "v1")...))
	m.listening()
	m.answers(reviews, "v1")
}

// waits waits until a program is alive, not ready, and says why.
func waits(t testing.TB, p *stack.Program, why string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if status, _, err := fetch(ctx, "http://"+p.HTTP()+"/healthz"); err != nil || status != http.StatusOK {
			return fmt.Errorf("/healthz answers %d, %w", status, err)
		}
		status, body, err := fetch(ctx, "http://"+p.HTTP()+"/readyz")
		if err != nil {
			return err
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(body, why) {
			return fmt.Errorf("/readyz answers %d %q, want a word about %q", status, body, why)
		}
		return nil
	})
}

// endWithin is how long a program may take to end with clients connected.
const endWithin = 2 * time.Second

func TestProgramsEndInGoodOrderWithClientsConnected(t *testing.T) {
	t.Parallel()
	_, database := common.get(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m := meshOn(t, control, database)
	port := newPort(t)
	m.commit(m.service(reviews, backends(t, "v1")...), tcpService(ledger, port, newGreeter(t, "v1")))
	m.listening()
	reaches(t, port, "v1")
	hold(t, port)
	watch := watchMesh(t, m)

	for _, p := range []*stack.Program{control.MCPServer, control.Discovery, m.agent} {
		ctx, cancel := context.WithTimeout(t.Context(), endWithin)
		require.NoError(t, p.Terminate(ctx))
		cancel()
		require.NotContains(t, p.Log(), "panic")
	}
	watch.Stop(endWithin)
}

// watchMesh runs `mcp-client watch`.
func watchMesh(t testing.TB, m *mesh) *process.Process {
	t.Helper()
	heard := &heard{some: make(chan struct{})}
	cmd := exec.Command(filepath.Join(bin, "mcp-client"), "--server", m.MCP, "--insecure", "watch", "serviceentries", "-n", m.namespace)
	cmd.Stdout, cmd.Stderr = heard, heard
	watch, err := process.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(watch.Kill)
	select {
	case <-heard.some:
	case <-time.After(longestWait):
		t.Fatal("mcp-client watch prints nothing")
	}
	return watch
}

// heard tells that a program has written a line.
type heard struct {
	some chan struct{}
	told bool
}

func (h *heard) Write(p []byte) (int, error) {
	if !h.told {
		h.told = true
		close(h.some)
	}
	return len(p), nil
}

package registrytest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// stepsOfPath is how many random operations there are without a variable. Programs start in some.
const stepsOfPath = 40

// WholePath holds all that is between a registry and a proxy to what registries promise: an mcp-server
// that reads it and a discovery, real programs that die and come back. What a proxy has at the end is
// what the registry has, and nothing was taken from it because something could not be asked.
func WholePath(t *testing.T, s Subject) {
	tell(t, s, number(t, operationsVariable, stepsOfPath), func() mesh { return runPath(t, s) })
}

// path are the programs, with what a proxy was told by them.
type path struct {
	*proxy

	t       *testing.T
	control *stack.Stack
}

func runPath(t *testing.T, s Subject) *path {
	t.Helper()
	control := startPath(t, s.URL)
	return &path{proxy: runProxy(t, s, control.XDS), t: t, control: control}
}

// startPath starts the programs.
func startPath(t *testing.T, url string) *stack.Stack {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, stack.Build(t.Context(), bin, "mcp-server", "discovery"))
	control, err := stack.NewBridge(bin, t.TempDir(), url)
	require.NoError(t, err)
	control.ServerFlags("--state-dir", t.TempDir())
	t.Cleanup(func() {
		control.Stop()
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startsWithin)
	defer cancel()
	require.NoError(t, control.Start(ctx))
	return control
}

// startsWithin is how long the programs may take on a machine that is busy.
const startsWithin = 2 * poll.Longest

// interrupt restarts mcp-server, discovery or both. They are killed, but where the registry cannot be
// asked mcp-server ends in good order: what it served in the seconds before it was killed is not in its
// file yet.
func (p *path) interrupt(random *rand.Rand, cut bool) {
	p.t.Helper()
	server, discovery := p.control.MCPServer, p.control.Discovery
	parts := [][]*stack.Program{{server}, {discovery}, {server, discovery}}[random.IntN(3)]
	for _, part := range parts {
		if cut {
			part.Stop()
		} else {
			part.Kill()
		}
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), startsWithin)
	defer cancel()
	for _, part := range parts {
		require.NoError(p.t, part.Start())
	}
	for _, part := range parts {
		require.NoError(p.t, part.Ready(ctx))
	}
}

func (p *path) end() { p.proxy.stop() }

var _ mesh = (*path)(nil)

package e2e

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// Each part of the pipeline dies in turn while the mesh is being changed and used.
func TestNothingIsLostWhateverDies(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	control := newStack(t, server.URL)
	require.NoError(t, control.Start(t.Context()))
	m := meshOn(t, control, server.URL)
	c := newChanges(m, newBackend(t, "v1", nil))
	c.apply(0)
	m.listening()
	traffic := m.startTraffic(c.host(0), 200)
	c.start()

	restart(c, control.MCPServer)
	restart(c, control.Discovery)
	killEnvoy(c, traffic)
	cutConnections(c)
	outage(c, server)

	c.end()
	_, failure := traffic.end()
	t.Logf("%d transactions, %d requests", c.newest.Load(), traffic.sent.Load())
	require.Empty(t, failure)
	c.agree()
}

// restart kills a program, starts it again a few transactions later, and waits until what was
// committed meanwhile is in force.
func restart(c *changes, p *stack.Program) {
	c.mesh.t.Helper()
	c.arrived()
	p.Kill()
	c.committed(5)
	require.NoError(c.mesh.t, p.Start())
	c.arrived()
}

// killEnvoy kills the Envoy that requests go through. Its agent starts it again.
func killEnvoy(c *changes, traffic *traffic) {
	m := c.mesh
	m.t.Helper()
	traffic.lenient.Store(true)
	before := envoyPid(m)
	require.NoError(m.t, syscall.Kill(before, syscall.SIGKILL))
	eventually(m.t, func(ctx context.Context) error {
		if envoyPid(m) == before {
			return errors.New("there is no new Envoy")
		}
		return m.status(ctx, c.host(0), http.StatusOK)
	})
	traffic.lenient.Store(false)
	c.arrived()
}

var envoyStarted = regexp.MustCompile(`Envoy started" pid=(\d+)`)

// envoyPid is the last one that the agent logged.
func envoyPid(m *mesh) int {
	m.t.Helper()
	all := envoyStarted.FindAllStringSubmatch(m.agent.Log(), -1)
	require.NotEmpty(m.t, all)
	pid, err := strconv.Atoi(all[len(all)-1][1])
	require.NoError(m.t, err)
	return pid
}

// cutConnections ends all connections to Postgres except its own.
func cutConnections(c *changes) {
	t := c.mesh.t
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.mesh.db.Config().ConnString())
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var cut int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&cut))
	require.Positive(t, cut)
	c.committed(5)
	c.arrived()
}

// outage stops Postgres. Envoy goes on.
func outage(c *changes, server *pgtest.OwnServer) {
	m := c.mesh
	m.t.Helper()
	server.Stop()
	for range 50 {
		require.Equal(m.t, http.StatusOK, m.must(request{host: c.host(1)}).status)
	}
	server.Start()
	c.committed(5)
	c.arrived()
}

func newStack(t testing.TB, database string) *stack.Stack {
	t.Helper()
	s, err := stack.New(bin, t.TempDir(), database)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", s.MCPServer.Log(), s.Discovery.Log())
		}
	})
	return s
}

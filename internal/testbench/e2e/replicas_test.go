package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// One discovery is killed, then the other, then everything behind them, while requests flow. A
// machine starts while all is away. Then all comes back.
func TestNoRequestFailsWhicheverServerIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	m := secureMeshOn(t, server.URL, nil)
	second, address := m.anotherDiscovery("second")
	const client = "127.0.0.2"
	host := func(name string) string { return name + ".mesh" }
	m.commit(m.workload("ledger", newPort(t), newBackend(t, "ledger", nil)), m.egressOn("shop", "cart", client, "shop"))
	ledger := m.member("shop/ledger", "ledger", "--labels", "app=ledger", "--discovery", address)
	cart := m.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", client, "--discovery", address)
	m.becomes(client, host("ledger"), http.StatusOK)
	traffic := m.startTrafficAt(net.JoinHostPort(client, m.port), host("ledger"), 100)

	first := m.Discovery
	m.connectedTo(cart, "first", "second")
	began := time.Now()
	first.Kill()
	m.connectedTo(cart, "second")
	m.connectedTo(ledger, "second")
	t.Logf("all were with the other discovery after %s", time.Since(began).Round(time.Millisecond))
	m.commit(m.workload("till", newPort(t), newBackend(t, "till", nil)))
	m.becomes(client, host("till"), http.StatusServiceUnavailable) // known, and without an endpoint

	require.NoError(t, first.Start())
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, first.Ready(ctx))
	second.Kill()
	m.connectedTo(cart, "first")
	m.MCPServer.Kill()
	server.Stop()
	first.Kill()
	m.measures(cart, "pgmesh_mesh_agent_discovery_connected", 0)

	// A machine starts again while nothing is there that could tell it anything.
	_, failure := traffic.end()
	require.Empty(t, failure)
	cart.Kill()
	require.NoError(t, cart.Start())
	require.NoError(t, cart.Ready(ctx))
	m.becomes(client, host("ledger"), http.StatusOK)
	m.measures(cart, "pgmesh_mesh_agent_serving_last_good", 1)
	says(t, cart.Log, "Envoy starts with the last good configuration")
	traffic = m.startTrafficAt(net.JoinHostPort(client, m.port), host("ledger"), 100)

	server.Start()
	for _, p := range []*stack.Program{m.MCPServer, first, second} {
		require.NoError(t, p.Start())
	}
	m.measures(cart, "pgmesh_mesh_agent_serving_last_good", 0)
	eventually(t, func(ctx context.Context) error { return m.MCPServer.Ready(ctx) })
	m.commit(m.workload("desk", newPort(t), newBackend(t, "desk", nil)))
	m.becomes(client, host("desk"), http.StatusServiceUnavailable)
	_, failure = traffic.end()
	require.Empty(t, failure)
}

// anotherDiscovery starts one beside the first.
func (m *secureMesh) anotherDiscovery(name string) (p *stack.Program, address string) {
	m.t.Helper()
	p, address, err := m.Replica(m.t.Context(), name)
	require.NoError(m.t, err)
	require.NoError(m.t, p.Start())
	m.t.Cleanup(func() {
		p.Stop()
		if m.t.Failed() {
			m.t.Logf("the log of %s:\n%s", name, p.Log())
		}
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	require.NoError(m.t, p.Ready(ctx))
	return p, address
}

// connectedTo waits until an agent is connected to one of the discoveries, by the names in their
// certificates.
func (m *secureMesh) connectedTo(agent *stack.Program, names ...string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		_, page, err := fetch(ctx, "http://"+agent.HTTP()+"/metrics")
		if err != nil {
			return err
		}
		last := lastMatch(agent.Log(), `msg="connected to discovery" .*discovery=(\S+)`)
		for _, name := range names {
			if last == name && containsLine(page, "pgmesh_mesh_agent_discovery_connected 1") {
				return nil
			}
		}
		return fmt.Errorf("connected to %q, and not to any of %v", last, names)
	})
}

// measures waits until a metric of an agent has a value.
func (m *secureMesh) measures(agent *stack.Program, series string, value int) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		_, page, err := fetch(ctx, "http://"+agent.HTTP()+"/metrics")
		if err == nil && !containsLine(page, fmt.Sprintf("%s %d", series, value)) {
			err = fmt.Errorf("%s is not %d", series, value)
		}
		return err
	})
}

func lastMatch(text, pattern string) string {
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

func containsLine(page, line string) bool { return slices.Contains(strings.Split(page, "\n"), line) }

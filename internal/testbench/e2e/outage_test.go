package e2e

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// seenCertificates are those that members had so far.
type seenCertificates struct {
	mu      sync.Mutex
	serials map[string]bool
}

// look adds those that members have now.
func (s *seenCertificates) look(m *secureMesh, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.serials[m.certificate(name).SerialNumber.Text(16)] = true
	}
}

// Everything goes away, one after the other: the database, mcp-server, and then discovery, which
// comes back alone.
func TestMembersGoOnWhateverIsAway(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	m := secureMeshOn(t, server.URL, nil, "--cert-lifetime", "12s")
	const client, host = "127.0.0.2", "ledger.mesh"
	m.commit(m.workload("ledger", newPort(t), newBackend(t, "ledger", nil)), m.egressOn("shop", "cart", client, "shop"))
	ledger := m.member("shop/ledger", "ledger", "--labels", "app=ledger")
	cart := m.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", client)
	m.becomes(client, host, http.StatusOK)
	late := m.joinToken("shop/till")
	seen := &seenCertificates{serials: map[string]bool{}}
	seen.look(m, "ledger", "cart")
	traffic := m.startTrafficAt(net.JoinHostPort(client, m.port), host, 200)

	server.Stop()
	m.renews(ledger, cart)
	seen.look(m, "ledger", "cart")
	m.MCPServer.Kill()
	says(t, m.Discovery.Log, "records of certificates wait for mcp-server")
	m.Discovery.Kill()
	require.NoError(t, m.Discovery.Start())
	m.renews(ledger, cart) // with the certificate that they have
	seen.look(m, "ledger", "cart")

	// A machine that comes now waits.
	till, err := m.Member(envoytest.Binary(t), "till", late, "--concurrency", "1", "--drain-time", "0s", "--node-ip", "127.0.0.3")
	require.NoError(t, err)
	require.NoError(t, till.Start())
	t.Cleanup(till.Stop)
	says(t, m.Discovery.Log, "refused.*unavailable")

	server.Start()
	require.NoError(t, m.MCPServer.Start())
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, m.MCPServer.Ready(ctx))
	require.NoError(t, m.Discovery.Ready(ctx))
	require.NoError(t, till.Ready(ctx))
	seen.look(m, "till")
	m.member("shop/teller", "teller", "--node-ip", "127.0.0.4")
	seen.look(m, "ledger", "cart", "teller")

	_, failure := traffic.end()
	t.Logf("%d requests", traffic.sent.Load())
	require.Empty(t, failure)
	serials := slices.Collect(maps.Keys(seen.serials))
	require.GreaterOrEqual(t, len(serials), 8)
	m.recorded(len(serials), "serial = ANY ($1) AND refusal IS NULL", serials)
}

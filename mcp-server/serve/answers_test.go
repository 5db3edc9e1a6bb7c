package serve_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

const (
	serviceEntries  = "networking.istio.io/v1/ServiceEntry"
	workloadEntries = "networking.istio.io/v1/WorkloadEntry"
)

// revised waits until a server serves a revision to one client. Other clients may get it later.
func revised(t *testing.T, address string, revision string) {
	t.Helper()
	x := openDelta(t, address)
	x.ask(mcpv1.BatchTypeURL)
	for {
		h := x.next(mcpv1.BatchTypeURL)
		x.ack(h)
		if h.revision == revision {
			return
		}
	}
}

// While a response is unanswered, states come and go. Then the newest one is sent, and no other.
// Another type of the same stream shows that it has reached the newest state; another stream may
// get there earlier.
func TestOneResponseATypeIsUnansweredAndTheNewestStateWins(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		database := pgtest.New(t)
		address := launch(t, serve.Options{Database: database}).MCP.String()
		x := open(address)
		x.ask(serviceEntries)
		first := x.next(serviceEntries)
		x.ask(workloadEntries)
		x.ack(x.next(workloadEntries))
		write(t, database, "a", "a.example")
		write(t, database, "b", "b.example")
		execute(t, database, `DELETE FROM mesh.resources WHERE name = 'a';
			INSERT INTO mesh.resources (kind, name, spec) VALUES ('WorkloadEntry', 'w', '{"address": "10.0.0.1"}')`)
		require.Equal(t, "3", x.next(workloadEntries).revision)
		x.quiet()
		x.ack(first)
		second := x.next(serviceEntries)
		require.Equal(t, "3", second.revision)
		require.Len(t, versions(t, second), 1)
		require.Contains(t, versions(t, second), "default/b")
		require.Empty(t, second.removed, "it never had the other")
	})
}

// Acceptances and refusals of anything but the pending response are ignored.
func TestStaleNoncesAreIgnored(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		database := pgtest.New(t)
		server := launch(t, serve.Options{Database: database})
		x := open(server.MCP.String())
		x.ask(serviceEntries)
		first := x.next(serviceEntries)
		x.ack(first)
		write(t, database, "a", "a.example")
		second := x.next(serviceEntries)
		write(t, database, "b", "b.example")
		revised(t, server.MCP.String(), "2")
		x.ack(first)
		x.say(said{typeURL: serviceEntries, nonce: "2026-08-22 12:00:00.123456789 +0000 UTC m=+1.5"})
		x.say(said{typeURL: serviceEntries, nonce: first.nonce, refusal: "too late"})
		x.quiet()
		x.ack(second)
		require.Equal(t, "2", x.next(serviceEntries).revision)
		_, metrics := server.get("/metrics")
		require.NotContains(t, metrics, `answer="nack"`)
	})
}

// The same content would be refused again. The refusal is reported, and new content is sent.
func TestARefusalIsReportedAndWaitsForNewContent(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, open func(string) *xds) {
		database, log := pgtest.New(t), &journal.Journal{}
		write(t, database, "a", "a.example")
		server := launch(t, serve.Options{Database: database, Log: slog.New(slog.NewTextHandler(log, nil))})
		x := open(server.MCP.String())
		x.ask(serviceEntries)
		x.say(said{typeURL: serviceEntries, nonce: x.next(serviceEntries).nonce, refusal: "default/a: no such resolver"})
		x.ask(workloadEntries)
		x.ack(x.next(workloadEntries))
		execute(t, database, `INSERT INTO mesh.resources (kind, name, spec) VALUES ('WorkloadEntry', 'w', '{"address": "10.0.0.1"}')`)
		require.Equal(t, "2", x.next(workloadEntries).revision)
		x.quiet()
		require.Contains(t, log.String(), "no such resolver")
		require.Contains(t, log.String(), xdsNode)
		_, metrics := server.get("/metrics")
		require.Contains(t, metrics, `pgmesh_mcp_server_answers_total{answer="nack",type="networking.istio.io/v1/ServiceEntry"} 1`)
		write(t, database, "a", "b.example")
		require.Contains(t, versions(t, x.next(serviceEntries)), "default/a")
	})
}

// Istiod names itself in every request, the protocol demands it of the first alone, and curious
// people do not at all.
func TestClientsNeedNotNameThemselves(t *testing.T) {
	t.Parallel()
	address := launch(t, serve.Options{Database: pgtest.New(t)}).MCP.String()
	eachForm(t, func(_ *testing.T, open func(string) *xds) {
		x := open(address)
		x.say(said{typeURL: serviceEntries, anonymous: true})
		h := x.next(serviceEntries)
		x.say(said{typeURL: serviceEntries, nonce: h.nonce, anonymous: true})
		x.quiet()
	})
}

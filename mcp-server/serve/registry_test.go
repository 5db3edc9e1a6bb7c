package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	"github.com/pgmesh/pgmesh/store/history"
)

// keep registers a machine in a session of its own.
func keep(t *testing.T, address string, by ...grpc.DialOption) (*machinev1.KeepResponse, error) {
	t.Helper()
	conn, err := grpc.NewClient(address, by...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	stream, err := machinev1.NewRegistryServiceClient(conn).Keep(t.Context())
	require.NoError(t, err)
	_ = stream.Send(&machinev1.KeepRequest{Discovery: "eu", Number: 1, Changes: []*machinev1.Change{{
		Namespace: "shop", ServiceAccount: "default", Machine: "m1", Since: 1, Address: "10.0.0.1", State: machinev1.Change_STATE_HERE,
		Service: &machinev1.Service{Group: "cart", Health: machinev1.Health_HEALTH_HEALTHY},
	}}})
	return stream.Recv()
}

const cart = `INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`

func TestDiscoveriesRegisterMachinesAndNobodyElse(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	execute(t, m.options.Database, cart)
	answer, err := keep(t, m.MCP.String(), m.credentials(m.join(identity.Discovery, "eu")))
	require.NoError(t, err)
	require.Equal(t, "cart-10.0.0.1", answer.GetOutcomes()[0].GetEntry())
	overview, err := history.New(m.store).Revisions(t.Context(), history.Query{AtMost: 1})
	require.NoError(t, err)
	require.Equal(t, "spiffe://cluster.local/pgmesh/discovery/eu", overview.Revisions[0].Author)
	_, err = keep(t, m.MCP.String(), m.credentials(m.join(identity.MCPServer, "relay")))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "may not say which machines are there: it has the scopes read")
}

func TestMachinesAreRegisteredWithoutTLSAndNotAtARelay(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	execute(t, database, cart)
	server := launch(t, serve.Options{Database: database})
	answer, err := keep(t, server.MCP.String(), plaintext...)
	require.NoError(t, err)
	require.Equal(t, "cart-10.0.0.1", answer.GetOutcomes()[0].GetEntry())
	_, metrics := server.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_registry_changes_total{outcome="taken"} 1`)
	require.Contains(t, metrics, `pgmesh_mcp_server_registry_sessions 1`)

	relay := launch(t, serve.Options{Upstream: serve.Upstream{Addresses: []string{server.MCP.String()}}})
	_, err = keep(t, relay.MCP.String(), plaintext...)
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "this server is a relay: it has no database to read from or to change. Ask its upstream, "+server.MCP.String())
}

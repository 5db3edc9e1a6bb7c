package serve_test

import (
	"errors"
	"io"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// A server that has nothing sends istiod away rather than take from it what it has.
func TestAServerWithoutItsDatabaseSendsIstiodAway(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Server(t)
	write(t, postgres.URL, "a", "a.example")
	first := launch(t, serve.Options{Database: postgres.URL})
	i := newIstiodOf(t, newIstiod)
	i.sync(first.MCP.String())
	first.end()
	postgres.Stop()

	server := launch(t, serve.Options{Database: postgres.URL})
	i.dial(server.MCP.String())
	_, err := i.stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "cannot read what it is to serve")
	require.Equal(t, codes.Unavailable, status.Code(askLegacy(t, server.MCP.String())))
	require.Contains(t, i.bodies, "default/a")

	postgres.Start()
	require.Eventually(t, func() bool {
		code, _ := server.get("/readyz")
		return code == 200
	}, limit, 10*time.Millisecond)
	i.sync(server.MCP.String())
	require.NoError(t, askLegacy(t, server.MCP.String()))
	require.Equal(t, []string{"add default/a"}, i.done)
}

// askLegacy asks as a sink of the first generation does, and returns the error that it gets in
// place of an answer.
func askLegacy(t *testing.T, address string) error {
	t.Helper()
	conn, err := grpc.NewClient(address, plaintext...)
	require.NoError(t, err)
	defer conn.Close()
	stream, err := legacyv1.NewResourceSourceClient(conn).EstablishResourceStream(t.Context())
	require.NoError(t, err)
	if err := stream.Send(&legacyv1.RequestResources{Collection: "istio/networking/v1alpha3/serviceentries"}); !errors.Is(err, io.EOF) {
		require.NoError(t, err) // why a stream has ended is received
	}
	_, err = stream.Recv()
	return err
}

// A server that has lost its database goes on serving what it had, to open streams and to new ones.
func TestALostDatabaseEndsNoStream(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Server(t)
	write(t, postgres.URL, "a", "a.example")
	server := launch(t, serve.Options{Database: postgres.URL})
	open, comes := newIstiodOf(t, newIstiod), newIstiodOf(t, oldIstiod)
	open.sync(server.MCP.String())
	follower := connect(t, server.MCP.String(), nil)
	follower.until(1)
	postgres.Kill()
	follower.standing(stale)
	comes.sync(server.MCP.String())
	require.Equal(t, []string{"add default/a"}, comes.done)
	const late = "networking.istio.io/v1beta1/ServiceEntry"
	open.send(&discoveryv3.DiscoveryRequest{Node: open.node(), TypeUrl: late})
	require.Len(t, open.receive().GetResources(), 1)
	postgres.Start()
	write(t, postgres.URL, "b", "b.example")
	open.until("add default/b")
	comes.until("add default/b")
}

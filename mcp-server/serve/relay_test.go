package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

func relaying(stateDir string, upstreams ...string) serve.Options {
	return serve.Options{Upstream: serve.Upstream{Addresses: upstreams}, StateDir: stateDir}
}

// A client goes from the server with the database to a relay, on to a relay of that, and back, and
// is sent only what is new.
func TestAClientMovesBetweenServersAndIsSentNothingAgain(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	write(t, database, "a", "a.example")
	write(t, database, "b", "b.example")
	origin := launch(t, serve.Options{Database: database})
	first := launch(t, relaying(t.TempDir(), origin.MCP.String()))
	second := launch(t, relaying("", first.MCP.String()))
	held := connect(t, origin.MCP.String(), nil)
	require.ElementsMatch(t, []string{"a", "b"}, held.until(2))
	versions := held.held
	for _, server := range []*running{first, second, origin, second} {
		c := connect(t, server.MCP.String(), versions)
		require.Empty(t, c.until(2))
		c.standing(live)
		c.stop()
	}

	far := connect(t, second.MCP.String(), versions)
	require.Empty(t, far.until(2))
	execute(t, database, `BEGIN;
		UPDATE mesh.resources SET spec = jsonb_set(spec, '{hosts,0}', '"new.example"') WHERE name = 'a';
		DELETE FROM mesh.resources WHERE name = 'b'; COMMIT`)
	require.ElementsMatch(t, []string{"a", "b gone"}, far.until(3), "a transaction stays one")
	path := far.standing(live).Path
	require.Len(t, path, 3)
}

// A relay serves on when its upstream is gone, and after a restart, and goes on from there when the
// upstream is back.
func TestARelayOutlivesItsUpstream(t *testing.T) {
	t.Parallel()
	database, dir := pgtest.New(t), t.TempDir()
	write(t, database, "a", "a.example")
	address := freeAddress(t)
	origin := launch(t, serve.Options{Database: database, Listen: address})
	relay := launch(t, relaying(dir, address))
	c := connect(t, relay.MCP.String(), nil)
	require.Equal(t, []string{"a"}, c.until(1))
	c.standing(live)
	origin.end()
	require.False(t, c.standing(stale).Saved)
	code, text := relay.get("/readyz")
	require.Equal(t, 200, code)
	require.Regexp(t, `^ready: serving revision 1, the newest of 20.*; upstream `+address, text)
	c.stop()
	relay.end()
	write(t, database, "b", "b.example")

	relay = launch(t, relaying(dir, address))
	again := connect(t, relay.MCP.String(), c.held)
	require.Empty(t, again.until(1))
	require.True(t, again.standing(stale).Saved)
	launch(t, serve.Options{Database: database, Listen: address})
	require.Equal(t, []string{"b"}, again.until(2))
	again.standing(live)
	_, text = relay.get("/metrics")
	require.Contains(t, text, fmt.Sprintf("pgmesh_mcp_server_upstream_connected{upstream=%q} 1", address))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return address
}

func TestARelayRefersChangesToItsUpstream(t *testing.T) {
	t.Parallel()
	origin := launch(t, serve.Options{Database: pgtest.New(t)})
	o := relaying("", origin.MCP.String())
	o.API = "127.0.0.1:0"
	relay := launch(t, o)
	refused := status.Convert(apply(t, relay.MCP.String()))
	require.Equal(t, codes.FailedPrecondition, refused.Code())
	require.Contains(t, refused.Message(), "this server is a relay: it has no database to read from or to change. Ask its upstream, "+origin.MCP.String())

	answer, err := http.Get("http://" + relay.API.String() + "/v1/revisions")
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, answer.StatusCode, string(text))
	require.Contains(t, string(text), "Ask its upstream, "+origin.MCP.String())
}

func TestAServerHasOneSource(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]serve.Options{
		"--database is missing":                                   {},
		"--database and --upstream exclude each other":            {Database: "postgres://h/d", Upstream: serve.Upstream{Addresses: []string{"a:1"}}},
		"--replica and --migrate are about a database":            {Migrate: true, Upstream: serve.Upstream{Addresses: []string{"a:1"}}},
		"--upstream a: expected host:port":                        {Upstream: serve.Upstream{Addresses: []string{"b:1", "a"}}},
		"reading the database URL":                                {Database: "postgres://h:port/d", Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}},
		"--upstream: --insecure alone is for servers on loopback": {Upstream: serve.Upstream{Addresses: []string{"b.example:1"}}, Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}},
	} {
		o.Plaintext.Allowed, o.Log = true, discard
		require.ErrorContains(t, serve.Run(t.Context(), o, nil), want)
	}
}

package serve_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

func TestARelayIsAMemberOfItsUpstreamsMesh(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	state, log := t.TempDir(), &journal.Journal{}
	file := filepath.Join(state, "token")
	require.NoError(t, os.WriteFile(file, []byte(m.token(identity.MCPServer, "relay").Text()+"\n"), 0o600))
	o := serve.Options{
		Upstream: serve.Upstream{Addresses: []string{m.MCP.String()}, JoinTokenFile: file}, StateDir: state, Name: "eu",
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	relay := start(t, o)
	execute(t, m.options.Database, strings.ReplaceAll(entry, "%NS%", "shop"))
	member := m.join(identity.Discovery, "eu")
	by := []grpc.DialOption{m.credentials(member)}
	require.Equal(t, []string{"x"}, connectBy(t, relay.MCP.String(), nil, by).until(1), "a discovery follows the relay, as a member of the same mesh")

	token, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, log.String(), strings.TrimSpace(string(token))[20:40])
	require.NoError(t, os.Remove(file))
	relay.end()
	relay = start(t, o) // without the token, which is used up
	out := connectBy(t, relay.MCP.String(), nil, by)
	require.Equal(t, []string{"x"}, namesOf(out.next()))

	_, err = trust.New(m.store).RevokeServer(t.Context(), "discovery", "eu", "stolen", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "pgmesh/discovery/eu was revoked at") }, limit, 10*time.Millisecond, "its streams end at the relay too")
	_, err = trust.New(m.store).RevokeServer(t.Context(), "mcp-server", "eu", "", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(m.log.String(), "pgmesh/mcp-server/eu was revoked at") }, limit, 10*time.Millisecond)

	conn, err := grpc.NewClient(relay.MCP.String(), grpc.WithTransportCredentials(credentials.NewTLS(member.Client(membership.IsProgram(identity.MCPServer)))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	_, err = identityv1.NewAuthorityServiceClient(conn).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}

func TestARelayThatCannotJoinSaysWhy(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	discovery := m.token(identity.Discovery, "eu").Text()
	broken, wrong := filepath.Join(t.TempDir(), "broken"), filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(broken, []byte(discovery[:40]), 0o600))
	require.NoError(t, os.WriteFile(wrong, []byte(discovery), 0o600))
	for says, o := range map[string]serve.Options{
		"give --state-dir":               {Upstream: serve.Upstream{JoinTokenFile: wrong}},
		"is not a whole join token":      {Upstream: serve.Upstream{JoinTokenFile: broken}, StateDir: t.TempDir()},
		"no such file":                   {Upstream: serve.Upstream{JoinTokenFile: broken + "x"}, StateDir: t.TempDir()},
		"which is no mcp-server":         {Upstream: serve.Upstream{JoinTokenFile: wrong}, StateDir: t.TempDir()},
		"is for a relay: give --upstrea": {Upstream: serve.Upstream{JoinTokenFile: wrong}, Database: "postgres://127.0.0.1:1/x"},
	} {
		if o.Database == "" {
			o.Upstream.Addresses = []string{m.MCP.String()}
		}
		o.Listen, o.HTTP.Address, o.Log = "127.0.0.1:0", "127.0.0.1:0", discard
		err := serve.Run(t.Context(), o, nil)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), discovery[20:40])
	}
}

package identity_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// startSecure starts a TLS server with its own authority, and returns the flags with which an
// administrator calls it.
func startSecure(t *testing.T) (m *clitest.Mesh, flags []string) {
	t.Helper()
	m = clitest.New(t)
	key := filepath.Join(t.TempDir(), "secrets.key")
	certtest.WriteFile(t, key, []byte(seal.NewLine()+"\n"))
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			Database: m.Database, Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}, Name: "main", Sealing: seal.Options{KeyFile: key}, Log: slog.New(slog.DiscardHandler),
		}, func(a serve.Addresses) { started <- a })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case a := <-started:
		m.Address = a.MCP.String()
	case err := <-ended:
		ended <- nil
		t.Fatalf("starting the server: %v", err)
	}
	secret, _, err := tokens.Create(t.Context(), callers.New(m.Store()), "admin", []string{"admin"}, time.Now().Add(time.Hour), "")
	require.NoError(t, err)
	return m, []string{"--server", m.Address, "--token", secret}
}

func TestRootFilesMustBeUpdatedBeforeActivation(t *testing.T) {
	t.Parallel()
	m, flags := startSecure(t)
	s, first := m.Store(), []trust.Authority(nil)
	require.Eventually(t, func() bool { // the server listens before it has made one
		var err error
		first, err = trust.New(s).Authorities(t.Context())
		return err == nil && len(first) > 0
	}, 20*time.Second, 10*time.Millisecond)
	file := filepath.Join(t.TempDir(), "mesh.pem")
	certtest.WriteFile(t, file, first[0].Chain)
	ask := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append(append([]string{"authority"}, args...), append(flags, "--tls-ca", file)...)...)
	}
	require.Equal(t, clitest.Result{Code: 0, Out: string(first[0].Chain), Err: ""}, ask("roots"))

	rotated := ask("rotate")
	require.Equal(t, "made authority 2\n", rotated.Out, rotated.Err)
	require.Contains(t, rotated.Err, "the files by which people and programs trust the mesh (--tls-ca, and mesh-agent join --roots) need it too: mcp-client authority roots > roots.pem\n")
	require.Contains(t, rotated.Err, file+", by which this command knows the server, does not have it yet: mcp-client authority roots > roots.pem && mv roots.pem "+file+"\n")

	m.Execute("UPDATE mesh_internal.authority_keys SET created_at = now() - interval '1 hour'")
	early := ask("activate", "2")
	require.Equal(t, 1, early.Code, "it would shut itself out")
	require.Contains(t, early.Err, file+", by which this command knows the server, does not have the root of authority 2")

	roots := ask("roots")
	known, err := authority.ParseCertificates([]byte(roots.Out))
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.NoError(t, os.WriteFile(file, []byte(roots.Out), 0o600))
	activated := ask("activate", "2")
	require.Equal(t, "authority 2 signs\n", activated.Out, activated.Err)
	require.Contains(t, activated.Err, "Whoever trusts the mesh by a file without its root (--tls-ca, mesh-agent join --roots) cannot speak to servers any more: mcp-client authority roots > roots.pem\n")
	require.Zero(t, ask("retire", "1", "--force").Code)
	require.Eventually(t, func() bool {
		left := ask("roots")
		only, err := authority.ParseCertificates([]byte(left.Out))
		return err == nil && len(only) == 1 && only[0].Equal(known[1])
	}, 20*time.Second, 10*time.Millisecond)
}

// Anybody who may read may read the roots.
func TestRootsAreReadable(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	none := m.Run("authority", "roots")
	require.Equal(t, 1, none.Code)
	require.Contains(t, none.Err, "the mesh cluster.local has no authority: run mcp-server with --secrets-key-file")
	s := m.GiveMembers()
	reader := m.OK("token", "create", "reader", "--scope", "read:shop")
	list, err := trust.New(s).Authorities(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(list[0].Chain)+string(list[1].Chain), m.OK("authority", "roots", "--token", reader[:len(reader)-1]))
}

package cli_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store"
)

// startSecure starts a TLS server with its own authority, and returns the flags with which an administrator
// calls it.
func startSecure(t *testing.T) (m *mesh, flags []string) {
	t.Helper()
	m = of(t)
	key := filepath.Join(t.TempDir(), "secrets.key")
	certtest.WriteFile(t, key, []byte(seal.NewLine()+"\n"))
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			Database: m.database, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Name: "main", Sealing: seal.Options{KeyFile: key}, Log: slog.New(slog.DiscardHandler),
		}, func(a serve.Addresses) { started <- a })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case a := <-started:
		m.address = a.MCP.String()
	case err := <-ended:
		ended <- nil
		t.Fatalf("starting the server: %v", err)
	}
	secret, _, err := tokens.Create(t.Context(), m.store(), "admin", []string{"admin"}, time.Now().Add(time.Hour), "")
	require.NoError(t, err)
	return m, []string{"--server", m.address, "--token", secret}
}

func TestRootFilesMustBeUpdatedBeforeActivation(t *testing.T) {
	t.Parallel()
	m, flags := startSecure(t)
	s, first := m.store(), []store.Authority(nil)
	require.Eventually(t, func() bool { // the server listens before it has made one
		var err error
		first, err = s.Authorities(t.Context())
		return err == nil && len(first) > 0
	}, 20*time.Second, 10*time.Millisecond)
	file := filepath.Join(t.TempDir(), "mesh.pem")
	certtest.WriteFile(t, file, first[0].Chain)
	ask := func(args ...string) result {
		return run(t.Context(), "", nil, append(append([]string{"authority"}, args...), append(flags, "--tls-ca", file)...)...)
	}
	require.Equal(t, result{0, string(first[0].Chain), ""}, ask("roots"))

	rotated := ask("rotate")
	require.Equal(t, "made authority 2\n", rotated.out, rotated.err)
	require.Contains(t, rotated.err, "the files by which people and programs trust the mesh (--tls-ca, and mesh-agent join --roots) need it too: mcp-client authority roots > roots.pem\n")
	require.Contains(t, rotated.err, file+", by which this command knows the server, does not have it yet: mcp-client authority roots > roots.pem && mv roots.pem "+file+"\n")

	m.execute("UPDATE mesh.authority_keys SET created_at = now() - interval '1 hour'")
	early := ask("activate", "2")
	require.Equal(t, 1, early.code, "it would shut itself out")
	require.Contains(t, early.err, file+", by which this command knows the server, does not have the root of authority 2")

	roots := ask("roots")
	known, err := authority.ParseCertificates([]byte(roots.out))
	require.NoError(t, err)
	require.Len(t, known, 2)
	require.NoError(t, os.WriteFile(file, []byte(roots.out), 0o600))
	activated := ask("activate", "2")
	require.Equal(t, "authority 2 signs\n", activated.out, activated.err)
	require.Contains(t, activated.err, "Whoever trusts the mesh by a file without its root (--tls-ca, mesh-agent join --roots) cannot speak to servers any more: mcp-client authority roots > roots.pem\n")
	require.Zero(t, ask("retire", "1", "--force").code)
	require.Eventually(t, func() bool {
		left := ask("roots")
		only, err := authority.ParseCertificates([]byte(left.out))
		return err == nil && len(only) == 1 && only[0].Equal(known[1])
	}, 20*time.Second, 10*time.Millisecond)
}

// Anybody who may read may read the roots.
func TestRootsAreReadable(t *testing.T) {
	t.Parallel()
	m := start(t)
	none := m.run("authority", "roots")
	require.Equal(t, 1, none.code)
	require.Contains(t, none.err, "the mesh cluster.local has no authority: run mcp-server with --secrets-key-file")
	s := m.enfranchise()
	reader := m.ok("token", "create", "reader", "--scope", "read:shop")
	list, err := s.Authorities(t.Context())
	require.NoError(t, err)
	require.Equal(t, string(list[0].Chain)+string(list[1].Chain), m.ok("authority", "roots", "--token", reader[:len(reader)-1]))
}

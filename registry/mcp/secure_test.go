package mcp_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// A server over TLS takes a token or a certificate, and is known by its name or its id.
func TestAServerIsReadOverTLS(t *testing.T) {
	t.Parallel()
	in, database, dir, authority := newInventory(t), pgtest.New(t), t.TempDir(), certtest.NewAuthority(t)
	in.register("web", one("10.0.0.1"))
	o := serve.Options{Database: database, Registries: registries(in.url("inventory"))}
	o.Security.TLS.ClientCA = filepath.Join(dir, "ca.pem")
	certtest.WriteFile(t, o.Security.TLS.ClientCA, authority.PEM)
	o.Security.TLS.Cert, o.Security.TLS.Key = authority.Issue(nil, "spiffe://mesh/ns/istio-system/sa/mcp-server").Write(t, dir)
	o.Security.Allow = []string{"spiffe://mesh/bridge"}
	server := run(t, o)
	token := filepath.Join(dir, "token")
	s, err := store.Open(t.Context(), database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	secret, _, err := tokens.Create(t.Context(), callers.New(s), "bridge", []string{"read"}, time.Time{}, "")
	require.NoError(t, err)
	certtest.WriteFile(t, token, []byte(secret+"\n"))
	cert, key := authority.Issue(nil, "spiffe://mesh/bridge").Write(t, t.TempDir())

	ca := "tls-ca=" + o.Security.TLS.ClientCA
	for _, parameters := range []string{
		ca + "&token-file=" + token,
		ca + "&tls-cert=" + cert + "&tls-key=" + key,
		ca + "&token-file=" + token + "&tls-server-id=spiffe://mesh/ns/istio-system/sa/mcp-server",
		ca + "&token-file=" + token + "&tls-server-name=localhost",
	} {
		watch(t, server.address, parameters).UntilThere(t, "mcp.inventory.web")
	}
	for parameters, reason := range map[string]string{
		ca:                    "Unauthenticated",
		"token-file=" + token: "certificate signed by unknown authority",
		ca + "&token-file=" + token + "&tls-server-id=spiffe://mesh/other": "spiffe://mesh/other",
		ca + "&token-file=" + token + "&tls-server-name=other.example":     "other.example",
	} {
		watch(t, server.address, parameters).UntilAway(t, reason)
	}
}

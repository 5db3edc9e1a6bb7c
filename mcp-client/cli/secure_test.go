package cli_test

import (
	"context"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// oneToken knows one token.
type oneToken struct {
	caller.NoTokens

	hash  caller.TokenHash
	token caller.Token
}

func (o oneToken) Find(_ context.Context, hash caller.TokenHash) (caller.Token, error) {
	if hash != o.hash {
		return caller.Token{}, caller.ErrUnknownToken
	}
	return o.token, nil
}

// serveSecurely serves like stock, over TLS, to the bearers of a token and to clients whose
// certificate is for spiffe://mesh/ops.
func serveSecurely(t *testing.T, a *certtest.Authority, secret string) string {
	t.Helper()
	dir := t.TempDir()
	files := tlsfiles.Server{ClientCA: filepath.Join(dir, "ca.pem")}
	files.Cert, files.Key = a.Issue(nil, "spiffe://mesh/mcp-server").Write(t, dir)
	certtest.WriteFile(t, files.ClientCA, a.PEM)
	loaded, err := files.Load(reload.Options{}, nil, "")
	require.NoError(t, err)
	rules, err := caller.ParseRules([]string{"spiffe://mesh/ops"})
	require.NoError(t, err)
	guard := caller.NewGuard(caller.Config{
		Allowed: func() caller.AllowList { return rules },
		Tokens:  oneToken{hash: caller.HashOf(secret), token: caller.Token{Name: "ci", Scopes: []caller.Scope{{Verb: caller.Read}}}},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(loaded.Config())), grpc.StreamInterceptor(guard.Stream), grpc.UnaryInterceptor(guard.Unary))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, clitest.Stock{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a, secret, dir := certtest.NewAuthority(t), caller.NewSecret(), t.TempDir()
	address := serveSecurely(t, a, secret)
	ca, tokenFile := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	certtest.WriteFile(t, ca, a.PEM)
	certtest.WriteFile(t, tokenFile, []byte(secret+"\n"))
	cert, key := a.Issue(nil, "spiffe://mesh/ops").Write(t, t.TempDir())
	otherCert, otherKey := a.Issue(nil, "spiffe://mesh/other").Write(t, t.TempDir())
	expired := filepath.Join(dir, "expired.pem")
	old := a.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, "spiffe://mesh/ops")
	certtest.WriteFile(t, expired, old.Cert)
	oldKey := filepath.Join(dir, "expired-key.pem")
	certtest.WriteFile(t, oldKey, old.Key)

	trusting := []string{"get", "vs", "-o", "name", "--server", address, "--tls-ca", ca}
	for name, more := range map[string][]string{
		"a token file":                   {"--token-file", tokenFile},
		"a token":                        {"--token", secret},
		"a certificate":                  {"--tls-cert", cert, "--tls-key", key},
		"both, and the server by its id": {"--tls-cert", otherCert, "--tls-key", otherKey, "--token-file", tokenFile, "--tls-server-id", "spiffe://mesh/mcp-server"},
	} {
		r := clitest.Run(t.Context(), "", nil, append(trusting, more...)...)
		require.Equal(t, clitest.Result{Code: 0, Out: "virtualservice.networking.istio.io/default/reviews\n", Err: ""}, r, name)
	}
	env := map[string]string{"PGMESH_SERVER": address, "PGMESH_TLS_CA": ca, "PGMESH_TOKEN": secret}
	require.Zero(t, clitest.Run(t.Context(), "", env, "get", "vs").Code)

	for name, tt := range map[string]struct {
		more []string
		code int
		says string
	}{
		"nothing":                {nil, 5, "nobody vouches for the caller: present a client certificate"},
		"another certificate":    {[]string{"--tls-cert", otherCert, "--tls-key", otherKey}, 5, "spiffe://mesh/other may not call here"},
		"another token":          {[]string{"--token", caller.NewSecret()}, 5, "the token is not known"},
		"an expired certificate": {[]string{"--tls-cert", expired, "--tls-key", oldKey}, 2, "the certificate has expired at"},
		"another server's name":  {[]string{"--tls-server-name", "mesh.example.com"}, 4, "Name it as its certificate does, with --tls-server-name"},
		"another server's id":    {[]string{"--tls-server-id", "spiffe://mesh/other"}, 4, "the server is not spiffe://mesh/other"},
		"half a pair":            {[]string{"--tls-cert", cert}, 2, "give --tls-cert and --tls-key"},
		"both ways":              {[]string{"--insecure"}, 2, "--insecure and the flags for TLS exclude each other"},
		"two tokens":             {[]string{"--token", secret, "--token-file", tokenFile}, 2, "--token and --token-file: give one of them"},
	} {
		r := clitest.Run(t.Context(), "", nil, append(trusting, tt.more...)...)
		require.Equal(t, tt.code, r.Code, "%s: %s", name, r.Err)
		require.Contains(t, r.Err, tt.says, name)
		require.NotContains(t, r.Err, secret, name)
	}
	r := clitest.Run(t.Context(), "", nil, "get", "vs", "--server", address)
	require.Equal(t, 4, r.Code)
	require.Contains(t, r.Err, "Name the authority that vouches for it with --tls-ca")
	r = clitest.Run(t.Context(), "", nil, "get", "vs", "--server", address, "--insecure")
	require.Equal(t, 4, r.Code)
	require.Contains(t, r.Err, "It may speak TLS alone: leave --insecure out")
}

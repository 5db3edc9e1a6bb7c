package serve_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

var shell = regexp.MustCompile("(?ms)^```bash\n(.*?)^```$")

// What docs/callers.md has people paste makes certificates that server and client take.
func TestCertificatesThatTheDocsMake(t *testing.T) {
	t.Parallel()
	dir := paste(t, "../../docs/callers.md")
	at := func(name string) string { return filepath.Join(dir, name) }
	database := pgtest.New(t)
	r := launch(t, serve.Options{Database: database, Security: serve.Security{
		TLS:   tlsfiles.Server{Cert: at("mcp-server.pem"), Key: at("mcp-server.key"), ClientCA: at("authority.pem")},
		Allow: []string{"spiffe://mesh.example/discovery/*"},
	}})
	write(t, database, "a", "a.example")
	for _, server := range []string{"", "spiffe://mesh.example/mcp-server"} {
		how := dial.Options{TLS: tlsfiles.Client{CA: at("authority.pem"), Cert: at("discovery.pem"), Key: at("discovery.key"), ServerID: server}}
		c, err := how.To(nil, r.MCP.String())
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, connectBy(t, r.MCP.String(), nil, c.DialOptions()).until(1))
	}
}

// What docs/own-pki.md has people paste serves each of the ways that it tells of.
func TestOwnPKIThatTheDocsMake(t *testing.T) {
	t.Parallel()
	dir := paste(t, "../../docs/own-pki.md")
	at := func(name string) string { return filepath.Join(dir, name) }
	root := func(t *testing.T) []*x509.Certificate {
		t.Helper()
		text, err := os.ReadFile(at("root.pem"))
		require.NoError(t, err)
		roots, err := signing.ParseCertificates(text)
		require.NoError(t, err)
		return roots
	}
	config := `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'mesh', '{"trustDomain": "mesh.example"}')`

	t.Run("an authority for the mesh", func(t *testing.T) {
		t.Parallel()
		database := pgtest.New(t)
		execute(t, database, config)
		m := found(t, database, func(o *serve.Options) {
			o.Sealing, o.Authority = seal.Options{}, authority.Files{Cert: at("mesh.pem"), Key: at("mesh.key"), Roots: at("root.pem")}
		})
		member := m.join(identity.Discovery, "eu-1")
		require.Equal(t, "spiffe://mesh.example/pgmesh/discovery/eu-1", member.Current().ID.String())
		_, err := identityv1.NewAuthorityServiceClient(m.as(member)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
		require.NoError(t, err)
		err = serve.Run(t.Context(), serve.Options{
			Database: database, Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}, Log: discard,
			Authority: authority.Files{Cert: at("machines.pem"), Key: at("machines.key"), Roots: at("root.pem")},
		}, nil)
		require.ErrorContains(t, err, "path length")
	})

	t.Run("authorities that sign machines alone", func(t *testing.T) {
		t.Parallel()
		database := pgtest.New(t)
		execute(t, database, config)
		r := launch(t, serve.Options{
			Database: database, Authority: authority.Files{Roots: at("root.pem")},
			Security: serve.Security{
				TLS:   tlsfiles.Server{Cert: at("mcp-server.pem"), Key: at("mcp-server.key"), ClientCA: at("root.pem")},
				Allow: []string{"spiffe://mesh.example/pgmesh/discovery/*=read;secrets;sign"},
			},
		})
		how := dial.Options{TLS: tlsfiles.Client{CA: at("root.pem"), Cert: at("discovery.pem"), Key: at("discovery.key")}}
		c, err := how.To(nil, r.MCP.String())
		require.NoError(t, err)
		conn, err := grpc.NewClient(r.MCP.String(), c.DialOptions()...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		stream, err := identityv1.NewTrustServiceClient(conn).WatchTrust(t.Context(), &identityv1.WatchTrustRequest{})
		require.NoError(t, err)
		told, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, "mesh.example", told.GetTrust().GetTrustDomain())
		roots, err := signing.ParseCertificates(told.GetTrust().GetRoots())
		require.NoError(t, err)
		require.True(t, roots[0].Equal(root(t)[0]))
		_, err = identityv1.NewAuthorityServiceClient(conn).Redeem(t.Context(), &identityv1.RedeemRequest{TokenHash: make([]byte, 32), KeyHash: make([]byte, 32)})
		refused(t, identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, err)
		_, err = identityv1.NewAuthorityServiceClient(conn).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
		refused(t, identityv1.Refusal_REFUSAL_UNAVAILABLE, err)

		text := func(name string) []byte {
			content, err := os.ReadFile(at(name))
			require.NoError(t, err)
			return content
		}
		machines, err := signing.Load(text("machines.pem"), text("machines.key"), text("root.pem"))
		require.NoError(t, err)
		require.Error(t, machines.MayDelegate())
		csr, err := signing.ParseRequest(request(t))
		require.NoError(t, err)
		_, err = machines.Sign(signing.Request{CSR: csr, ID: spiffeid.RequireFromString("spiffe://mesh.example/ns/shop/sa/cart"), Lifetime: time.Hour})
		require.NoError(t, err)
		trust, err := membership.ParseTrust(told.GetTrust())
		require.NoError(t, err)
		for file, usage := range map[string]x509.ExtKeyUsage{"cart.pem": x509.ExtKeyUsageClientAuth, "discovery.pem": x509.ExtKeyUsageServerAuth} {
			chain, err := signing.ParseCertificates(text(file))
			require.NoError(t, err)
			_, err = trust.Verify(chain, usage)
			require.NoError(t, err, file)
		}
		// A machine that has nothing but a join token knows discovery by the root that it shows.
		token, err := jointoken.New(roots...)
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(text("discovery.pem"), text("discovery.key"))
		require.NoError(t, err)
		var shown []*x509.Certificate
		for _, der := range pair.Certificate {
			one, err := x509.ParseCertificate(der)
			require.NoError(t, err)
			shown = append(shown, one)
		}
		require.NoError(t, membership.ByToken(token, identity.Discovery).VerifyConnection(tls.ConnectionState{PeerCertificates: shown}))
	})
}

// paste runs the first block of commands of a page in an empty folder.
func paste(t *testing.T, file string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl here")
	}
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	script := shell.FindSubmatch(page)
	require.NotNil(t, script)
	dir = t.TempDir()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", string(script[1]))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

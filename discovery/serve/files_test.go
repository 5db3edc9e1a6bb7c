package serve_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// pki is an operator's own: files for a discovery, and certificates for machines.
type pki struct {
	t      *testing.T
	folder string
	root   *authority.Authority
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	root, err := authority.NewRoot("the operator", time.Hour)
	require.NoError(t, err)
	p := &pki{t, t.TempDir(), root}
	p.write("roots.pem", root.RootsPEM())
	server, key := p.sign("spiffe://mesh.example/discovery", "localhost")
	p.write("server.pem", server)
	p.write("server.key", key)
	p.delegate()
	require.NoError(t, os.Mkdir(p.path("config"), 0o700))
	p.write("config/mesh.yaml", []byte(`
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {trustDomain: mesh.example}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec: {hosts: [cart.shop], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
`))
	return p
}

func (p *pki) path(name string) string { return filepath.Join(p.folder, name) }

func (p *pki) write(name string, content []byte) {
	p.t.Helper()
	certtest.WriteFile(p.t, p.path(name), content)
}

// sign issues a certificate with its key, by the root.
func (p *pki) sign(id string, hosts ...string) (chain, key []byte) {
	p.t.Helper()
	made, csr := p.request()
	issued, err := p.root.Sign(authority.Request{CSR: csr, ID: spiffeid.RequireFromString(id), Hosts: hosts, Lifetime: time.Hour})
	require.NoError(p.t, err)
	return issued.ChainPEM, made
}

func (p *pki) request() ([]byte, *authority.CSR) {
	p.t.Helper()
	made, csr := certtest.Request(p.t)
	key, err := authority.EncodeKey(made)
	require.NoError(p.t, err)
	return key, csr
}

// delegate makes a new authority beneath the root the one that signs.
func (p *pki) delegate() {
	p.t.Helper()
	key, csr := p.request()
	issued, err := p.root.Delegate(csr, "of the operator", time.Hour)
	require.NoError(p.t, err)
	p.write("ca.key", key)
	p.write("ca.pem", issued.ChainPEM)
}

func (p *pki) options() serve.Options {
	return serve.Options{
		ReportProxies: true,
		Sources:       serve.Sources{Directory: p.path("config")},
		Identity: serve.Identity{
			Server:    tlsfiles.Server{Cert: p.path("server.pem"), Key: p.path("server.key"), ClientCA: p.path("roots.pem")},
			Authority: serve.AuthorityFiles{Cert: p.path("ca.pem"), Key: p.path("ca.key"), Roots: p.path("roots.pem")},
		},
	}
}

func (p *pki) machine(at serve.Addresses, id string) *servetest.Machine {
	p.t.Helper()
	m := servetest.NewMachine(p.t, at.XDS.String(), p.root.Root())
	chain, key := p.sign(id)
	pair, err := tls.X509KeyPair(chain, key)
	require.NoError(p.t, err)
	m.Certificate = &pair
	return m
}

// With an operator's PKI, and a folder of configuration, no mcp-server is needed: machines come
// with certificates, and renew them here.
func TestAnOperatorsOwnPKI(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	at, _ := servetest.Run(t, p.options())
	m := p.machine(at, "spiffe://mesh.example/ns/shop/sa/cart")
	require.Eventually(t, func() bool { return m.Join(t.Context(), "") == nil }, limit, 10*time.Millisecond, "the trust domain comes with the configuration")
	require.Len(t, m.Chain, 3)
	for _, prefix := range []string{"pgmesh_discovery_", ""} { // without, as up to the release before
		metrics := page(t, at, "/metrics")
		require.Contains(t, metrics, "\n"+prefix+`files_unusable{what="roots"} 0`)
		require.Contains(t, metrics, "\n"+prefix+`tls_not_after_seconds{what="server certificate"} `)
	}
	require.NoError(t, m.Certificate.Leaf.CheckSignatureFrom(parse(t, m.Chain[1])))
	verified(t, m)
	stream := connect(t, m)
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, answer.GetResources())
	require.Equal(t, "ready\n", page(t, at, "/readyz"))

	first := m.Chain[1]
	p.delegate()
	require.Eventually(t, func() bool {
		require.NoError(t, m.Join(t.Context(), ""))
		return m.Chain[1] != first
	}, limit, 50*time.Millisecond, "the files are read again")

	err = servetest.NewMachine(t, at.XDS.String(), p.root.Root()).Join(t.Context(), tokenOf(t))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "this discovery follows no mcp-server, which alone knows join tokens")

	_, err = connect(t, p.machine(at, "spiffe://elsewhere.example/ns/shop/sa/cart")).Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)

	p.write("roots.pem", certtest.NewAuthority(t).PEM) // the server's own certificate need not be valid for these
	_, err = stream.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "was signed by no authority that the mesh trusts")
	require.Eventually(t, func() bool { return m.Join(t.Context(), "") != nil }, limit, 50*time.Millisecond)
}

func tokenOf(t *testing.T) string {
	t.Helper()
	return servetest.NewAuthority(t).Token(1, cart)
}

// Without an authority machines must bring their certificates, and are told so.
func TestADiscoveryThatOnlyServes(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	o := p.options()
	o.Identity.Authority = serve.AuthorityFiles{}
	at, _ := servetest.Run(t, o)
	m := p.machine(at, "spiffe://mesh.example/ns/shop/sa/cart")
	require.Eventually(t, func() bool {
		answer, err := connect(t, m).Recv()
		return err == nil && len(answer.GetResources()) > 0
	}, limit, 10*time.Millisecond)
	err := m.Join(t.Context(), "")
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "give it one with --ca-cert and --ca-key, or an mcp-server")
	require.Equal(t, "ready: machines are given no certificates: it has no authority to sign with: give it one with --ca-cert and --ca-key, or an mcp-server\n",
		page(t, at, "/readyz"))
}

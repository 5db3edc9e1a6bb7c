package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// newGateway creates a namespace of the shared control plane, with an Envoy that serves the
// Gateways made by exposing.
func newGateway(t testing.TB) *mesh {
	t.Helper()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.startAgent("--role", "gateway", "--labels", "edge="+m.namespace)
	return m
}

// exposing is a Gateway for this namespace's router, with the given servers.
func (m *mesh) exposing(servers ...string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge}
spec: {selector: {edge: %s}, servers: [%s]}
`, m.namespace, strings.Join(servers, ", "))
}

// exposed is a rule of that Gateway; rules is the rest of its spec.
func exposed(name, hosts, rules string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s}
spec:
  hosts: [%s]
  gateways: [edge]
%s
`, name, hosts, indent(rules))
}

// to is a route to a host.
func to(host string) string { return "[{route: [{destination: {host: " + host + "}}]}]" }

// customer calls a gateway over TLS. The host of its request is also the server name.
type customer struct {
	m    *mesh
	tls  *tls.Config
	port string
}

// ask opens a connection for one request.
func (c customer) ask(ctx context.Context, r request) (*answer, error) {
	config := c.tls.Clone()
	config.ServerName = r.host
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, address(c.port))
		},
	}
	defer transport.CloseIdleConnections()
	return sendTLS(ctx, &http.Client{Transport: transport}, r)
}

func sendTLS(ctx context.Context, client *http.Client, r request) (*answer, error) {
	return sendURL(ctx, client, "https://"+r.host+"/"+strings.TrimPrefix(r.path, "/"), r)
}

// answers waits until a backend answers for the host.
func (c customer) answers(host, backend string) *answer {
	c.m.t.Helper()
	var got *answer
	eventually(c.m.t, func(ctx context.Context) (err error) {
		if got, err = c.ask(ctx, request{host: host}); err != nil {
			return err
		}
		return got.from(backend)
	})
	return got
}

// certified writes a certificate for a host into a new folder.
func certified(t testing.TB, a *certtest.Authority, host string) (folder, cert, key string) {
	t.Helper()
	folder = t.TempDir()
	cert, key = a.Issue(func(c *x509.Certificate) { c.DNSNames = []string{host} }).Write(t, folder)
	return folder, cert, key
}

// https is a server that ends TLS with certificates in files.
func https(port, name, host, mode, cert, key, more string) string {
	return fmt.Sprintf("{port: {number: %s, name: %s, protocol: HTTPS}, hosts: [%s], tls: {mode: %s, serverCertificate: %s, privateKey: %s%s}}",
		port, name, host, mode, cert, key, more)
}

func TestAGatewayServesTheHostsThatARuleGivesIt(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	shop, admin := newBackend(t, "shop", nil), newBackend(t, "admin", nil)
	port := newPort(t)
	m.commit(m.service("shop.mesh", shop), m.service("admin.mesh", admin),
		m.exposing("{port: {number: "+port+", name: http, protocol: HTTP}, hosts: ['*.example.com']}"),
		exposed("shop", "shop.example.com", "http: [{match: [{uri: {prefix: /admin}}], route: [{destination: {host: admin.mesh}}]}, {route: [{destination: {host: shop.mesh}}]}]"))
	m.port = port

	m.answers("shop.example.com", "shop")
	a, err := m.ask(t.Context(), request{host: "shop.example.com", path: "/admin/users", header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}})
	require.NoError(t, err)
	require.NoError(t, a.from("admin"))
	require.Equal(t, "istio-envoy", a.header.Get("Server"))
	require.Contains(t, a.seen.Header.Get("X-Forwarded-For"), "203.0.113.9,")

	// A rule for sidecars is none for the gateway, and a host without a rule is not found.
	require.NoError(t, m.status(t.Context(), "other.example.com", http.StatusNotFound))
	require.NoError(t, m.status(t.Context(), "shop.mesh", http.StatusNotFound))
}

func TestAGatewayRedirectsToHTTPS(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	port := newPort(t)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)),
		m.exposing("{port: {number: "+port+", name: http, protocol: HTTP}, hosts: [shop.example.com], tls: {httpsRedirect: true}}"),
		exposed("shop", "shop.example.com", "http: "+to("shop.mesh")))
	m.port = port
	eventually(t, func(ctx context.Context) error { return m.status(ctx, "shop.example.com", http.StatusMovedPermanently) })
	a, err := m.ask(t.Context(), request{host: "shop.example.com", path: "/cart?x=1"})
	require.NoError(t, err)
	require.Equal(t, "https://shop.example.com/cart?x=1", a.header.Get("Location"))
}

func TestAGatewayPassesConnectionsByPort(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	inside, outside := newPort(t), newPort(t)
	m.commit(tcpService(ledger, inside, newGreeter(t, "ledger")),
		m.exposing("{port: {number: "+outside+", name: tcp, protocol: TCP}, hosts: ['*']}"),
		exposed("ledger", "'*'", "tcp: [{match: [{port: "+outside+"}], route: [{destination: {host: "+ledger+", port: {number: "+inside+"}}}]}]"))
	reaches(t, outside, "ledger")
	_, err := converse(t.Context(), address(inside))
	require.Error(t, err, "a gateway listens on the ports of its Gateways alone")
}

func TestAGatewayEndsTLSWithTheCertificateOfTheName(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	authority := certtest.NewAuthority(t)
	port := newPort(t)
	folder, cert, key := certified(t, authority, "shop.example.com")
	_, otherCert, otherKey := certified(t, authority, "blog.example.com")
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.service("blog.mesh", newBackend(t, "blog", nil)),
		m.exposing(https(port, "shop", "shop.example.com", "SIMPLE", cert, key, ""),
			https(port, "blog", "blog.example.com", "SIMPLE", otherCert, otherKey, ", minProtocolVersion: TLSV1_3")),
		exposed("shop", "shop.example.com", "http: "+to("shop.mesh")),
		exposed("blog", "blog.example.com", "http: "+to("blog.mesh")))
	c := customer{m: m, port: port, tls: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
	c.answers("shop.example.com", "shop")
	c.answers("blog.example.com", "blog")

	c.tls.MaxVersion = tls.VersionTLS12
	c.answers("shop.example.com", "shop")
	_, err := c.ask(t.Context(), request{host: "blog.example.com"})
	require.Error(t, err, "the server wants TLS 1.3")
	_, err = c.ask(t.Context(), request{host: "nobody.example.com"})
	require.Error(t, err, "no server is for this name")

	// Files that are replaced are read again.
	fresh := certtest.NewAuthority(t)
	fresh.Issue(func(x *x509.Certificate) { x.DNSNames = []string{"shop.example.com"} }).Write(t, folder)
	c.tls = &tls.Config{RootCAs: fresh.Pool(), MinVersion: tls.VersionTLS12}
	c.answers("shop.example.com", "shop")
}

func TestAGatewayAsksClientsForCertificates(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	authority, clients := certtest.NewAuthority(t), certtest.NewAuthority(t)
	port := newPort(t)
	folder, cert, key := certified(t, authority, "shop.example.com")
	_, mayCert, mayKey := certified(t, authority, "may.example.com")
	certtest.WriteFile(t, folder+"/clients.pem", clients.PEM)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)),
		m.exposing(https(port, "must", "shop.example.com", "MUTUAL", cert, key, ", caCertificates: "+folder+"/clients.pem, subjectAltNames: ['spiffe://partner/one']"),
			https(port, "may", "may.example.com", "OPTIONAL_MUTUAL", mayCert, mayKey, ", caCertificates: "+folder+"/clients.pem")),
		exposed("shop", "'*.example.com'", "http: "+to("shop.mesh")))
	of := func(a *certtest.Authority, uri string) customer {
		return customer{m: m, port: port, tls: &tls.Config{
			RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.Issue(nil, uri).Certificate(t)},
		}}
	}
	partner, nobody := of(clients, "spiffe://partner/one"), customer{m: m, port: port, tls: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
	seen := partner.answers("shop.example.com", "shop").seen
	require.Contains(t, seen.Header.Get("X-Forwarded-Client-Cert"), "URI=spiffe://partner/one")
	for _, c := range []customer{nobody, of(authority, "spiffe://partner/one"), of(clients, "spiffe://partner/two")} {
		_, err := c.ask(t.Context(), request{host: "shop.example.com"})
		require.Error(t, err)
	}
	nobody.answers("may.example.com", "shop")
	partner.answers("may.example.com", "shop")
	_, err := of(authority, "spiffe://partner/one").ask(t.Context(), request{host: "may.example.com"})
	require.Error(t, err, "a certificate that is shown must be a good one")
}

func TestAGatewayPassesTLSByTheNameAskedFor(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	authority := certtest.NewAuthority(t)
	inside, outside := newPort(t), newPort(t)
	var services, matches []string
	for _, name := range []string{"one", "two"} {
		host := name + ".example.com"
		pair := authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{host} })
		l := tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{pair.Certificate(t)}, MinVersion: tls.VersionTLS12})
		b := &backend{name: name}
		b.serve(t, l)
		services = append(services, entry(name+".mesh", "TLS", "tls", inside, []string{endpoint(name, "tls", b.port)}))
		matches = append(matches, fmt.Sprintf("{match: [{sniHosts: [%s]}], route: [{destination: {host: %s.mesh}}]}", host, name))
	}
	m.commit(append(services, m.exposing("{port: {number: "+outside+", name: tls, protocol: TLS}, hosts: ['*.example.com'], tls: {mode: PASSTHROUGH}}"),
		exposed("all", "one.example.com, two.example.com", "tls: ["+strings.Join(matches, ", ")+"]"))...)
	c := customer{m: m, port: outside, tls: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
	c.answers("one.example.com", "one")
	c.answers("two.example.com", "two")
	_, err := c.ask(t.Context(), request{host: "three.example.com"})
	require.Error(t, err)
}

// Two Gateways want one port. The older has it, and SQL lists the conflict.
func TestAConflictOfGatewaysIsToldAndTheOlderServes(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	port := newPort(t)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)),
		m.exposing("{port: {number: "+port+", name: http, protocol: HTTP}, hosts: ['*']}"),
		exposed("shop", "'*'", "http: "+to("shop.mesh")))
	m.port = port
	m.answers("shop.example.com", "shop")
	m.commit(strings.Replace(m.exposing("{port: {number: "+port+", name: tcp, protocol: TCP}, hosts: ['*']}"), "name: edge", "name: late", 1))
	eventually(t, func(context.Context) error {
		if !strings.Contains(m.Discovery.Log(), "Gateway "+m.namespace+"/late") {
			return errors.New("discovery's log says nothing of the Gateway")
		}
		return nil
	})
	var problems int
	require.NoError(t, m.db.QueryRow(t.Context(), "SELECT count(*) FROM mesh.problems WHERE namespace = $1 AND name IN ('edge', 'late')", m.namespace).Scan(&problems))
	require.NotZero(t, problems)
	m.answers("shop.example.com", "shop")
}

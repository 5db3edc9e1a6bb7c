package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// limits is a Sidecar for the whole namespace of a mesh; rules is its spec.
func limits(rules string) string {
	return "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: default}\nspec:\n" + indent(rules) + "\n"
}

// throughProxy is a client that uses an HTTP proxy, like one with HTTP_PROXY in its environment.
func throughProxy(t testing.TB, address string) *http.Client {
	t.Helper()
	client := newClient(t)
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: address})
	return client
}

// fetches waits until a backend answers for an address.
func fetches(t testing.TB, client *http.Client, address, backend string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		a, err := send(ctx, client, address, request{})
		if err != nil {
			return err
		}
		return a.from(backend)
	})
}

// refuses asks once for an address, and wants this status.
func refuses(t testing.TB, client *http.Client, address string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	a, err := send(ctx, client, address, request{})
	require.NoError(t, err)
	require.Equal(t, status, a.status, a.body)
}

// The port is for the whole mesh, so this test has its own.
func TestTheProxyPortOfTheMesh(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m := meshWithoutEnvoy(t, control, database)
	first, second := newPort(t), newPort(t)
	proxyPort := func(port string) string {
		return "apiVersion: core/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh, namespace: istio-system}\nspec: {proxyHttpPort: " + port + "}\n"
	}
	web, api := newBackend(t, "web", nil), newBackend(t, "api", nil)
	m.commit(entry("web.mesh", "HTTP", "http", "80", []string{endpoint("v1", "http", web.port)}),
		entry("api.mesh", "HTTP", "http", m.port, []string{endpoint("v1", "http", api.port)}),
		virtualService("api.mesh", "http: [{headers: {request: {set: {via: rule}}}, route: [{destination: {host: api.mesh}}]}]"),
		proxyPort(first))
	m.startAgent()

	client := throughProxy(t, address(first))
	fetches(t, client, "web.mesh", "web")
	fetches(t, client, "api.mesh:"+m.port, "api")
	require.Equal(t, "rule", api.last.Load().Header.Get("Via"))
	require.Equal(t, "api.mesh:"+m.port, api.last.Load().Host)
	refuses(t, client, "web.mesh:"+m.port, http.StatusServiceUnavailable)
	refuses(t, client, "nobody.mesh", http.StatusServiceUnavailable)

	m.commit(proxyPort(second))
	fetches(t, throughProxy(t, address(second)), "web.mesh", "web")
	closed(t, address(first))
}

// closed waits until nothing listens at an address.
func closed(t testing.TB, address string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil //nolint:nilerr // as it should be
		}
		return errors.Join(errors.New("still open"), conn.Close())
	})
}

func TestASidecarLimitsWhatApplicationsReach(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := backends(t, "web", "api")
	m.commit(m.service("web.mesh", b[0]), m.service("api.mesh", b[1]))
	m.answers("web.mesh", "web")
	m.answers("api.mesh", "api")

	m.commit(limits("egress: [{hosts: [./web.mesh]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}"))
	eventually(t, func(ctx context.Context) error { return m.status(ctx, "api.mesh", http.StatusBadGateway) })
	m.answers("web.mesh", "web")

	m.transaction(func(tx pgx.Tx) { m.remove(tx, "Sidecar", "default") })
	m.answers("api.mesh", "api")
}

func TestASidecarOpensAnHTTPProxyASocketAndAPort(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	proxyPort, tcpPort, socket := newPort(t), newPort(t), filepath.Join(t.TempDir(), "web.sock")
	web := newBackend(t, "web", nil)
	m.commit(m.service("web.mesh", web), entry("plain.mesh", "HTTP", "http", "80", []string{endpoint("v1", "http", web.port)}),
		tcpService(ledger, tcpPort, newGreeter(t, "ledger")),
		limits(fmt.Sprintf(`
egress:
- {port: {number: %s, name: proxy, protocol: HTTP_PROXY}, bind: 127.0.0.1, hosts: ['./*.mesh']}
- {port: {number: 0, name: socket, protocol: HTTP}, bind: 'unix://%s', hosts: [./plain.mesh]}
- {port: {number: %s, name: tcp, protocol: TCP}, bind: 127.0.0.3, hosts: [./ledger.mesh]}
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
`, proxyPort, socket, tcpPort)))

	client := throughProxy(t, address(proxyPort))
	fetches(t, client, "web.mesh:"+m.port, "web")
	fetches(t, client, "plain.mesh", "web")
	refuses(t, client, "nobody.mesh", http.StatusBadGateway)

	bySocket := newClient(t)
	bySocket.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	fetches(t, bySocket, "plain.mesh", "web")
	refuses(t, bySocket, "web.mesh:"+m.port, http.StatusBadGateway)

	eventually(t, func(ctx context.Context) error {
		_, err := converse(ctx, net.JoinHostPort("127.0.0.3", tcpPort))
		return err
	})
	closed(t, address(m.port))
}

// Without redirection, what a Sidecar opens is the way into the application through its proxy.
func TestASidecarOpensPortsToTheApplication(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	socket := filepath.Join(t.TempDir(), "app.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	behind := &http.Server{Handler: newBackend(t, "behind a socket", nil)}
	served := make(chan error, 1)
	go func() { served <- behind.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, behind.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	app, tcp := newBackend(t, "app", nil), newGreeter(t, "tcp")
	httpPort, socketPort, tcpPort := newPort(t), newPort(t), newPort(t)
	m.commit(limits(fmt.Sprintf(`
egress: [{hosts: [~/*]}]
ingress:
- {port: {number: %s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}
- {port: {number: %s, name: socket, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: 'unix://%s'}
- {port: {number: %s, name: tcp, protocol: TCP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}
`, httpPort, app.port, socketPort, socket, tcpPort, tcp.port)))

	fetches(t, m.client, address(httpPort), "app")
	require.NotEmpty(t, app.last.Load().Header.Get("X-Request-Id"), "a request that came through the proxy")
	fetches(t, m.client, address(socketPort), "behind a socket")
	reaches(t, tcpPort, "tcp")

	// The proxy has no certificate, so it cannot accept mutual TLS.
	m.commit("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default}\nspec: {mtls: {mode: STRICT}}\n")
	eventually(t, func(ctx context.Context) error {
		if a, err := send(ctx, newClient(t), address(httpPort), request{}); err == nil {
			return fmt.Errorf("answered %d", a.status)
		}
		return nil
	})
}

func TestASidecarEndsTLSInFrontOfTheApplication(t *testing.T) {
	t.Parallel()
	m, app, port := newMesh(t), newBackend(t, "app", nil), newPort(t)
	authority, folder := certtest.NewAuthority(t), t.TempDir()
	cert, key := authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"app.example.com"} }).Write(t, folder)
	m.commit(limits(fmt.Sprintf(`
egress: [{hosts: [~/*]}]
ingress:
- port: {number: %s, name: https, protocol: HTTPS}
  bind: 127.0.0.1
  defaultEndpoint: 127.0.0.1:%s
  tls: {mode: SIMPLE, serverCertificate: %s, privateKey: %s}
`, port, app.port, cert, key)))

	client := newClient(t)
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), ServerName: "app.example.com", MinVersion: tls.VersionTLS12}}
		return d.DialContext(ctx, network, address(port))
	}
	fetches(t, client, "app.example.com", "app")
}

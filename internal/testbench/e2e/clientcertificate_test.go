package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// showing is a Gateway that shows a certificate to backends, on the machine that has this service.
func showing(name, port, certificate string) string {
	if certificate != "" {
		certificate = "tls: {backend: {clientCertificateRef: {name: " + certificate + "}}}, "
	}
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %[1]s}
spec: {gatewayClassName: pgmesh, addresses: [{type: Hostname, value: %[1]s.mesh}], %[3]slisteners: [{name: http, port: %[2]s, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s}
spec: {hosts: [%[1]s.mesh], resolution: STATIC, exportTo: [.], ports: [{number: %[2]s, name: tcp}], endpoints: [{address: 127.0.0.1, labels: {app: edge}}]}
`, name, port, certificate)
}

// shows waits until a backend is shown the certificate of a name by requests to a port, and is reached by
// that; "" is none.
func (m *mesh) shows(port string, to *secured, certificate string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		for len(to.hello) > 0 {
			<-to.hello
		}
		a, err := send(ctx, m.client, address(port), request{host: "pay.example.com"})
		if err != nil {
			return err
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("answered %d, want %q to be shown", a.status, certificate)
		}
		name := ""
		if seen := <-to.hello; len(seen.PeerCertificates) > 0 {
			name = seen.PeerCertificates[0].Subject.CommonName
		}
		if name != certificate {
			return fmt.Errorf("%q is shown, want %q", name, certificate)
		}
		return nil
	})
}

// A machine that serves several Gateways shows a backend the certificate of that by which a request came,
// and none where there is none.
func TestBackendsAreShownTheCertificateOfTheGateway(t *testing.T) {
	t.Parallel()
	m, s := newMesh(t, "--role", "gateway", "--labels", "app=edge"), newSecured(t, tls.RequestClientCert)
	s.behave = closing(s.behave)
	m.authority("ca", s.roots)
	issue := func(name string) {
		m.secret(name, tlsData(certtest.NewAuthority(t).Issue(func(c *x509.Certificate) { c.Subject.CommonName = name })))
	}
	issue("one")
	issue("two")
	one, two, none := newPort(t), newPort(t), newPort(t)
	m.commit(m.service("pay.mesh", s.backend), backendTLS("pay", "pay.mesh", "Secret", "ca", "secure.example.com", ""),
		showing("one", one, "one"), showing("two", two, "two"), showing("none", none, ""),
		httpRoute("pay", "{name: one}, {name: two}, {name: none}", "pay.example.com", "{backendRefs: ["+toHost("pay.mesh", m.port)+"]}"))
	m.shows(one, s, "one")
	m.shows(two, s, "two")
	m.shows(none, s, "")

	// A Gateway goes over to another certificate, or has none any more.
	m.commit(showing("one", one, "two"), showing("two", two, ""))
	m.shows(one, s, "two")
	m.shows(two, s, "")
	m.shows(none, s, "")
}

// A backend that asks for a certificate gets it, and the new one after a change. Without it nobody answers.
func TestABackendMayDemandTheCertificateOfAGateway(t *testing.T) {
	t.Parallel()
	m, s := newAPIGateway(t), newSecured(t, tls.RequireAndVerifyClientCert)
	s.behave = closing(s.behave)
	services, port := m.port, newPort(t)
	gateway := func(tls string) string {
		return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec: {gatewayClassName: pgmesh, %slisteners: [{name: http, port: %s, protocol: HTTP}]}
`, tls, port)
	}
	answered := func(code int) {
		t.Helper()
		eventually(t, func(ctx context.Context) error { return m.status(ctx, "pay.example.com", code) })
	}
	const named = "tls: {backend: {clientCertificateRef: {name: gate}}}, "
	m.authority("ca", s.roots)
	m.commit(m.service("pay.mesh", s.backend), backendTLS("pay", "pay.mesh", "Secret", "ca", "secure.example.com", ""), gateway(""),
		httpRoute("pay", "{name: edge}", "pay.example.com", "{backendRefs: ["+toHost("pay.mesh", services)+"]}"))
	m.port = port
	answered(http.StatusServiceUnavailable)

	cert, err := os.ReadFile(s.cert)
	require.NoError(t, err)
	key, err := os.ReadFile(s.key)
	require.NoError(t, err)
	m.commit(gateway(named))
	m.resolves("False InvalidClientCertificateRef")
	m.secret("gate", tlsData(certtest.Pair{Cert: cert, Key: key}))
	answered(http.StatusOK)
	m.resolves("True ResolvedRefs")
	m.shows(port, s, "client")

	m.secret("gate", tlsData(certtest.NewAuthority(t).Issue(func(c *x509.Certificate) { c.Subject.CommonName = "stranger" })))
	answered(http.StatusServiceUnavailable)
	m.secret("gate", tlsData(certtest.Pair{Cert: cert, Key: key}))
	answered(http.StatusOK)
	m.commit(gateway(""))
	answered(http.StatusServiceUnavailable)
}

// resolves waits until the condition ResolvedRefs of the Gateway edge stands so.
func (m *mesh) resolves(want string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		var is string
		err := m.db.QueryRow(ctx, `SELECT coalesce(string_agg(concat_ws(' ', c ->> 'status', c ->> 'reason'), ', '), '') FROM mesh.status_of('gtw.gateway.networking.k8s.io', $1, 'edge') s, jsonb_array_elements(s.status -> 'conditions') c
			WHERE c ->> 'type' = 'ResolvedRefs'`, m.namespace).Scan(&is)
		if err == nil && is != want {
			err = fmt.Errorf("it stands as %q, want %q", is, want)
		}
		return err
	})
}

// closing has a backend make its clients connect anew for each request.
func closing(behave func(http.ResponseWriter, *http.Request, int) bool) func(http.ResponseWriter, *http.Request, int) bool {
	return func(w http.ResponseWriter, r *http.Request, n int) bool {
		w.Header().Set("Connection", "close")
		return behave(w, r, n)
	}
}

// Clients of any of several authorities are let in, those of one that came later too, and others are not.
func TestClientsAreCheckedBySeveralAuthorities(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port := m.port, newPort(t)
	first, second, stranger := certtest.NewAuthority(t), certtest.NewAuthority(t), certtest.NewAuthority(t)
	m.secret("server", tlsData(first.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"shop.example.com"} })))
	m.secret("first", map[string]string{"ca.crt": string(first.PEM)})
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: pgmesh
  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: Secret, name: first}, {group: "", kind: Secret, name: second}]}}}}
  listeners: [{name: https, port: %s, protocol: HTTPS, tls: {certificateRefs: [{name: server}]}}]
`, port), httpRoute("shop", "{name: edge}", "shop.example.com", "{backendRefs: ["+toHost("shop.mesh", services)+"]}"))
	by := func(a *certtest.Authority) customer {
		return customer{m: m, port: port, tls: &tls.Config{RootCAs: first.Pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.Issue(nil).Certificate(t)}}}
	}
	by(first).answers("shop.example.com", "shop")
	m.resolves("False ListenersNotResolved")
	_, err := by(second).ask(t.Context(), request{host: "shop.example.com"})
	require.Error(t, err)

	m.secret("second", map[string]string{"ca.crt": string(second.PEM)})
	by(second).answers("shop.example.com", "shop")
	by(first).answers("shop.example.com", "shop")
	m.resolves("True ResolvedRefs")
	_, err = by(stranger).ask(t.Context(), request{host: "shop.example.com"})
	require.Error(t, err)
}

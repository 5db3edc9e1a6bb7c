package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// secured is a backend behind TLS, and what its clients need.
type secured struct {
	*backend
	roots, cert, key string
	// hello is what the newest connection sent first.
	hello chan tls.ConnectionState
}

func newSecured(t *testing.T, auth tls.ClientAuthType) *secured {
	t.Helper()
	authority, folder := certtest.NewAuthority(t), t.TempDir()
	s := &secured{roots: filepath.Join(folder, "roots.pem"), hello: make(chan tls.ConnectionState, 64)}
	certtest.WriteFile(t, s.roots, authority.PEM)
	s.cert, s.key = authority.Issue(func(c *x509.Certificate) { c.Subject.CommonName = "client" }).Write(t, folder)
	server := authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"secure.example.com"} })
	s.backend = &backend{name: "secure", behave: func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		s.hello <- *r.TLS
		return false
	}}
	listener := listen(t)
	s.backend.port = portOf(t, listener)
	serveTLS(t, listener, s.backend, &tls.Config{
		Certificates: []tls.Certificate{server.Certificate(t)}, ClientCAs: authority.Pool(), ClientAuth: auth,
	})
	return s
}

func serveTLS(t *testing.T, l net.Listener, handler http.Handler, config *tls.Config) {
	t.Helper()
	server := &http.Server{Handler: handler, TLSConfig: config}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(l, "", "") // ends with the server
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
}

func TestEnvoyOriginatesTLS(t *testing.T) {
	t.Parallel()
	m, s := newMesh(t), newSecured(t, tls.NoClientCert)
	rule := func(names string) string {
		return balanced(fmt.Sprintf("{tls: {mode: SIMPLE, caCertificates: %s, sni: secure.example.com, subjectAltNames: [%s]}}", s.roots, names))
	}
	m.commit(m.service(reviews, s.backend), rule("secure.example.com"))
	m.answers(reviews, "secure")
	require.Equal(t, "secure.example.com", (<-s.hello).ServerName)

	m.commit(rule("other.example.com"))
	eventually(t, func(ctx context.Context) error { return m.status(ctx, reviews, http.StatusServiceUnavailable) })
}

func TestEnvoyShowsACertificate(t *testing.T) {
	t.Parallel()
	m, s := newMesh(t), newSecured(t, tls.RequireAndVerifyClientCert)
	m.commit(m.service(reviews, s.backend), balanced(fmt.Sprintf(
		"{tls: {mode: MUTUAL, caCertificates: %s, clientCertificate: %s, privateKey: %s, sni: secure.example.com, subjectAltNames: [secure.example.com]}}",
		s.roots, s.cert, s.key)))

	m.answers(reviews, "secure")

	require.Equal(t, "client", (<-s.hello).PeerCertificates[0].Subject.CommonName)
}

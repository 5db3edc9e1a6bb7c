package servetest

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/identity/authority"
)

// Machine asks a discovery for certificates, as agents do.
type Machine struct {
	Key crypto.Signer
	// Certificate is its certificate, with its intermediates; nil before the first.
	Certificate *tls.Certificate
	// Roots are those that came with the certificate.
	Roots []*x509.Certificate
	Chain []string // as received

	t     testing.TB
	at    string
	roots *x509.CertPool
}

// NewMachine returns a machine that has a key, and knows a discovery and its roots.
func NewMachine(t testing.TB, at string, roots ...*x509.Certificate) *Machine {
	t.Helper()
	key, err := authority.NewKey()
	require.NoError(t, err)
	return &Machine{Key: key, t: t, at: at, roots: authority.Pool(roots...)}
}

// Dial connects to the discovery, with the certificate if there is one.
func (m *Machine) Dial() *grpc.ClientConn {
	m.t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: m.roots, ServerName: "localhost"}
	if m.Certificate != nil {
		config.Certificates = []tls.Certificate{*m.Certificate}
	}
	conn, err := grpc.NewClient(m.at, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Join gets a certificate with the given header authorization, or, if that is empty, with the
// present certificate.
func (m *Machine) Join(ctx context.Context, bearer string) error {
	m.t.Helper()
	csr, err := authority.NewRequest(m.Key)
	require.NoError(m.t, err)
	return m.Ask(ctx, bearer, &istio.IstioCertificateRequest{Csr: string(csr)})
}

// Ask is Join with a given request.
func (m *Machine) Ask(ctx context.Context, bearer string, r *istio.IstioCertificateRequest) error {
	m.t.Helper()
	conn := m.Dial()
	defer conn.Close()
	if bearer != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer)
	}
	answer, err := istio.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, r)
	if err != nil {
		return err
	}
	m.take(answer.GetCertChain())
	return nil
}

func (m *Machine) take(chain []string) {
	m.t.Helper()
	last := len(chain) - 1
	certificates, err := authority.ParseCertificates([]byte(strings.Join(chain[:last], "")))
	require.NoError(m.t, err)
	m.Chain = chain
	m.Roots, err = authority.ParseCertificates([]byte(chain[last]))
	require.NoError(m.t, err)
	m.Certificate = &tls.Certificate{PrivateKey: m.Key, Leaf: certificates[0]}
	for _, c := range certificates {
		m.Certificate.Certificate = append(m.Certificate.Certificate, c.Raw)
	}
}

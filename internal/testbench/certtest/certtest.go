// Package certtest issues certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority issues certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // its certificate
}

// NewAuthority creates a self-signed authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &Authority{t: t, cert: cert, key: key, PEM: block("CERTIFICATE", der)}
}

// Write writes the authority's certificate and key to cert.pem and key.pem in a folder.
func (a *Authority) Write(t testing.TB, folder string) (cert, key string) {
	t.Helper()
	pkcs8, err := x509.MarshalPKCS8PrivateKey(a.key)
	require.NoError(t, err)
	return Pair{Cert: a.PEM, Key: block("PRIVATE KEY", pkcs8)}.Write(t, folder)
}

// Pool returns a pool with only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Pair is a certificate and its key in PEM.
type Pair struct{ Cert, Key []byte }

// Issue issues a certificate for 127.0.0.1, localhost and the given URIs. change, if not nil, edits
// the template first.
func (a *Authority) Issue(change func(*x509.Certificate), uris ...string) Pair {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: serial(a.t), Subject: pkix.Name{CommonName: "test"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		require.NoError(a.t, err)
		template.URIs = append(template.URIs, u)
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	return Pair{Cert: block("CERTIFICATE", der), Key: block("PRIVATE KEY", pkcs8)}
}

// Certificate returns the pair for crypto/tls.
func (p Pair) Certificate(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(p.Cert, p.Key)
	require.NoError(t, err)
	return c
}

// Write writes the pair to cert.pem and key.pem in a folder, each file atomically.
func (p Pair) Write(t testing.TB, folder string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	WriteFile(t, cert, p.Cert)
	WriteFile(t, key, p.Key)
	return cert, key
}

// WriteFile replaces a file atomically.
func WriteFile(t testing.TB, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	return n
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

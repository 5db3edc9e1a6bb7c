package authority_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
)

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	return key
}

// asking creates a request from a template.
func asking(t testing.TB, key crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestOnlyTheKeyOfARequestCounts(t *testing.T) {
	t.Parallel()
	constraints, err := asn1.Marshal(struct{ IsCA bool }{true})
	require.NoError(t, err)
	csr, err := authority.ParseRequest(asking(t, newKey(t), &x509.CertificateRequest{
		Subject:         pkix.Name{CommonName: "admin", SerialNumber: "another machine", Organization: []string{"system:masters"}},
		DNSNames:        []string{"bank.example", "*"},
		IPAddresses:     []net.IP{net.IPv4(8, 8, 8, 8)},
		EmailAddresses:  []string{"root@bank.example"},
		URIs:            []*url.URL{cart.URL()},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: constraints}},
	}))
	require.NoError(t, err)
	issued, err := newRoot(t).Sign(authority.Request{CSR: csr, ID: cart, Enrolment: "e-1", Lifetime: time.Minute})
	require.NoError(t, err)
	isExactly(t, issued.Certificate)
}

// isExactly checks that a certificate has what was granted to cart, on the machine e-1, and nothing
// else.
func isExactly(t *testing.T, c *x509.Certificate) {
	t.Helper()
	require.Len(t, c.URIs, 1)
	require.Equal(t, cart.String(), c.URIs[0].String())
	require.Equal(t, "SERIALNUMBER=e-1", c.Subject.String())
	require.Empty(t, c.DNSNames)
	require.Empty(t, c.IPAddresses)
	require.Empty(t, c.EmailAddresses)
	require.False(t, c.IsCA)
	require.Zero(t, c.KeyUsage&^(x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment))
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, c.ExtKeyUsage)
	require.Empty(t, c.UnhandledCriticalExtensions)
}

func TestRequestForAnotherIdentityIsRefused(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	for _, other := range []string{"spiffe://mesh.example/ns/shop/sa/admin", "spiffe://other.example/ns/shop/sa/cart", "https://mesh.example/"} {
		uri, err := url.Parse(other)
		require.NoError(t, err)
		csr, err := authority.ParseRequest(asking(t, newKey(t), &x509.CertificateRequest{URIs: []*url.URL{cart.URL(), uri}}))
		require.NoError(t, err)
		_, err = root.Sign(authority.Request{CSR: csr, ID: cart, Lifetime: time.Minute})
		require.ErrorIs(t, err, authority.ErrRequest)
		require.ErrorContains(t, err, "it names "+other+", and the certificate would be for "+cart.String())
	}
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	t.Parallel()
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	forged := asking(t, newKey(t), &x509.CertificateRequest{})
	block, _ := pem.Decode(forged)
	block.Bytes[len(block.Bytes)-1] ^= 1 // in the signature
	for want, text := range map[string][]byte{
		"is not PKCS #10 in PEM form":       []byte("hello"),
		"16384 are enough for any":          []byte(strings.Repeat("x", 16<<10+1)),
		"its elliptic curve has 224 bits":   asking(t, weak, &x509.CertificateRequest{}),
		"its RSA key has 1024 bits":         asking(t, rsaKey(t, 1024), &x509.CertificateRequest{}),
		"its signature is not by its key":   pem.EncodeToMemory(block),
		"begins with -----BEGIN CERTIFICAT": newRoot(t).ChainPEM(),
		"read it:":                          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte{48, 1}}),
	} {
		_, err := authority.ParseRequest(text)
		require.ErrorIs(t, err, authority.ErrRequest)
		require.ErrorContains(t, err, want)
	}
}

func TestAllKeyTypesAreCertified(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for _, key := range []crypto.Signer{edwards, rsaKey(t, 2048)} {
		issued, err := root.Sign(authority.Request{CSR: request(t, key), ID: cart, Lifetime: time.Minute})
		require.NoError(t, err)
		require.True(t, authority.Fits(key, issued.Certificate))
		_, isRSA := key.(*rsa.PrivateKey)
		require.Equal(t, isRSA, issued.Certificate.KeyUsage&x509.KeyUsageKeyEncipherment != 0)
	}
}

func TestInvalidHostsAreRefused(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	for _, host := range []string{"*.example", "a b", "-x", "", "a..b", strings.Repeat("a.", 200), "http://x", "x\x00y"} {
		_, err := root.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Hosts: []string{host}, Lifetime: time.Minute})
		require.ErrorIs(t, err, authority.ErrRequest, host)
	}
	_, err := root.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Hosts: make([]string, 65), Lifetime: time.Minute})
	require.ErrorContains(t, err, "there are 65 hosts")
}

var fuzzed = sync.OnceValues(func() (*authority.Authority, error) { return authority.NewRoot("mesh.example", time.Hour) })

// FuzzParseRequest parses what any stranger may send. If it is accepted, the certificate must have
// only what was granted.
func FuzzParseRequest(f *testing.F) {
	key := newKey(f)
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add(asking(f, key, &x509.CertificateRequest{}))
	f.Add(asking(f, key, &x509.CertificateRequest{URIs: []*url.URL{cart.URL()}, DNSNames: []string{"a"}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		csr, err := authority.ParseRequest(text)
		if err != nil {
			require.ErrorIs(t, err, authority.ErrRequest)
			return
		}
		signs(t, csr)
	})
}

func signs(t *testing.T, csr *authority.CSR) {
	t.Helper()
	root, err := fuzzed()
	require.NoError(t, err)
	issued, err := root.Sign(authority.Request{CSR: csr, ID: cart, Enrolment: "e-1", Lifetime: time.Minute})
	if err != nil {
		require.ErrorIs(t, err, authority.ErrRequest)
		return
	}
	isExactly(t, issued.Certificate)
	verify(t, issued.ChainPEM, root.Roots())
}

// FuzzSign signs valid requests with arbitrary content, because random bytes hardly ever have a
// valid signature.
func FuzzSign(f *testing.F) {
	key := newKey(f)
	f.Add("cn", "serial", "dns.example", "spiffe://mesh.example/ns/shop/sa/cart", []byte{1, 2, 3}, 19)
	f.Add("", "", "*", "spiffe://mesh.example/pgmesh/mcp-server/a", []byte{48, 3, 1, 1, 255}, 17)
	f.Fuzz(func(t *testing.T, name, serial, host, uri string, extension []byte, number int) {
		parsed, err := url.Parse(uri)
		if err != nil || number < 0 {
			t.Skip()
		}
		template := &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: name, SerialNumber: serial}, DNSNames: []string{host}, URIs: []*url.URL{parsed},
			ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, number}, Critical: true, Value: extension}},
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
		if err != nil {
			t.Skip()
		}
		csr, err := authority.ParseRequest(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		if err != nil {
			require.ErrorIs(t, err, authority.ErrRequest)
			return
		}
		signs(t, csr)
	})
}

// BenchmarkSign measures what a discovery does for each machine: parse its request and sign.
func BenchmarkSign(b *testing.B) {
	root, err := authority.NewRoot("mesh.example", time.Hour)
	require.NoError(b, err)
	delegated := beneath(b, root)
	text, err := authority.NewRequest(newKey(b))
	require.NoError(b, err)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			csr, err := authority.ParseRequest(text)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err = delegated.Sign(authority.Request{CSR: csr, ID: cart, Enrolment: "e-1", Lifetime: time.Minute}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "certificates/s")
}

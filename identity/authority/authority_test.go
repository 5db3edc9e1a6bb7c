package authority_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
)

var cart = spiffeid.RequireFromString("spiffe://mesh.example/ns/shop/sa/cart")

func newRoot(t testing.TB) *authority.Authority {
	t.Helper()
	a, err := authority.NewRoot("mesh.example", time.Hour)
	require.NoError(t, err)
	return a
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := authority.NewKey()
	require.NoError(t, err)
	return key
}

// request is the CSR for a key.
func request(t testing.TB, key crypto.Signer) *authority.CSR {
	t.Helper()
	text, err := authority.NewRequest(key)
	require.NoError(t, err)
	csr, err := authority.ParseRequest(text)
	require.NoError(t, err)
	return csr
}

func keyPEM(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	text, err := authority.EncodeKey(key)
	require.NoError(t, err)
	return text
}

// beneath creates an authority below another.
func beneath(t testing.TB, a *authority.Authority) *authority.Authority {
	t.Helper()
	key := newKey(t)
	issued, err := a.Delegate(request(t, key), "eu-1", time.Minute)
	require.NoError(t, err)
	made, err := authority.Load(issued.ChainPEM, keyPEM(t, key), a.RootsPEM())
	require.NoError(t, err)
	return made
}

// verify verifies a chain for both TLS clients and servers.
func verify(t testing.TB, chain []byte, roots []*x509.Certificate) []*x509.Certificate {
	t.Helper()
	certificates, err := authority.ParseCertificates(chain)
	require.NoError(t, err)
	var line []*x509.Certificate
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		lines, err := certificates[0].Verify(x509.VerifyOptions{
			Roots: authority.Pool(roots...), Intermediates: authority.Pool(certificates[1:]...), KeyUsages: []x509.ExtKeyUsage{usage},
		})
		require.NoError(t, err)
		line = lines[0]
	}
	return line
}

func TestLoadRoundTrip(t *testing.T) {
	t.Parallel()
	made := newRoot(t)
	key, err := made.KeyPEM()
	require.NoError(t, err)
	for _, roots := range [][]byte{nil, made.RootsPEM()} {
		loaded, err := authority.Load(made.ChainPEM(), key, roots)
		require.NoError(t, err)
		require.Equal(t, made.Certificate().Raw, loaded.Certificate().Raw)
		issued, err := loaded.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Minute})
		require.NoError(t, err)
		require.Len(t, verify(t, issued.ChainPEM, made.Roots()), 2)
	}
}

func TestSignedLeaf(t *testing.T) {
	t.Parallel()
	before := time.Now()
	root := newRoot(t)
	issued, err := root.Sign(authority.Request{
		CSR: request(t, newKey(t)), ID: cart, Enrolment: "e-17", Hosts: []string{"127.0.0.1", "::1", "mesh.example"}, Lifetime: 10 * time.Minute,
	})
	require.NoError(t, err)
	c := issued.Certificate
	require.Len(t, c.URIs, 1)
	require.Equal(t, cart.String(), c.URIs[0].String())
	require.Equal(t, "e-17", c.Subject.SerialNumber)
	require.Equal(t, x509.KeyUsageDigitalSignature, c.KeyUsage)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, c.ExtKeyUsage)
	require.False(t, c.IsCA)
	for _, host := range []string{"127.0.0.1", "::1", "mesh.example"} {
		require.NoError(t, c.VerifyHostname(host))
	}
	require.WithinDuration(t, before.Add(10*time.Minute), c.NotAfter, 10*time.Second)
	require.WithinDuration(t, before.Add(-time.Minute), c.NotBefore, 10*time.Second, "clocks of others may be behind")

	again, err := root.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Minute})
	require.NoError(t, err)
	require.NotEqual(t, c.SerialNumber, again.Certificate.SerialNumber)
}

func TestLeafEndsNoLaterThanItsAuthority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delegated := beneath(t, newRoot(t)) // for a minute
		time.Sleep(20 * time.Second)
		issued, err := delegated.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Hour})
		require.NoError(t, err)
		require.Equal(t, delegated.NotAfter(), issued.Certificate.NotAfter)

		time.Sleep(40 * time.Second)
		_, err = delegated.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Hour})
		require.ErrorContains(t, err, "can give no certificate of any use")
	})
}

func TestDelegatedAuthority(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	require.NoError(t, root.MayDelegate())
	require.False(t, authority.Delegated(root.Certificate()))
	delegated := beneath(t, root)
	require.True(t, authority.Delegated(delegated.Certificate()))
	require.Equal(t, root.Certificate().Raw, delegated.Root().Raw)

	issued, err := delegated.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Second * 30})
	require.NoError(t, err)
	line := verify(t, issued.ChainPEM, root.Roots())
	require.Len(t, line, 3)
	require.True(t, authority.Delegated(line[1]))

	require.ErrorContains(t, delegated.MayDelegate(), "path length")
	_, err = delegated.Delegate(request(t, newKey(t)), "eu-2", time.Minute)
	require.ErrorContains(t, err, "may not have others beneath it")
}

// issue creates a certificate that the package itself would not issue.
func issue(t *testing.T, change func(*x509.Certificate), parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "made by a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	require.NoError(t, err)
	c, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

func TestLoadRefusesUnusableAuthorities(t *testing.T) {
	t.Parallel()
	rootKey, key := newKey(t), newKey(t)
	root := issue(t, nil, nil, rootKey.Public(), rootKey)
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	require.NoError(t, err)
	for want, c := range map[string]struct {
		change func(*x509.Certificate)
		key    crypto.Signer
	}{
		"is not that of an authority": {change: func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature }},
		"may not sign others":         {change: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }},
		"it has expired at": {change: func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}},
		"is a clock wrong?":                     {change: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }},
		"the key is not that of":                {key: newKey(t)},
		"has 224 bits":                          {key: weak},
		"has to allow both clients and servers": {change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }},
	} {
		public, held := key.Public(), key
		if c.key != nil {
			held = c.key
			if c.key == crypto.Signer(weak) {
				public = weak.Public()
			}
		}
		made := issue(t, c.change, root, public, rootKey)
		_, err := authority.Load(authority.EncodeCertificates(made), keyPEM(t, held), authority.EncodeCertificates(root))
		require.ErrorContains(t, err, want)
	}

	fine := authority.EncodeCertificates(issue(t, nil, root, key.Public(), rootKey))
	_, err = authority.Load(fine, keyPEM(t, key), authority.EncodeCertificates(root))
	require.NoError(t, err)
	_, err = authority.Load(fine, keyPEM(t, key), nil)
	require.ErrorContains(t, err, "give the roots that it leads to")
	_, err = authority.Load(fine, keyPEM(t, key), newRoot(t).RootsPEM())
	require.ErrorContains(t, err, "does not lead to any of the roots")
	_, err = authority.Load(nil, keyPEM(t, key), nil)
	require.ErrorContains(t, err, "there is no certificate in it")
	_, err = authority.Load(fine, []byte("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"), nil)
	require.ErrorContains(t, err, "the private key cannot be read")
	require.NotContains(t, err.Error(), "c2VjcmV0")
}

func TestPathLengthIsRespected(t *testing.T) {
	t.Parallel()
	rootKey, upperKey, lowerKey := newKey(t), newKey(t), newKey(t)
	length := func(n int) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.Subject.CommonName, c.MaxPathLen, c.MaxPathLenZero = c.Subject.CommonName+" of length", n, n == 0
		}
	}
	root := issue(t, nil, nil, rootKey.Public(), rootKey)
	for n, want := range map[int]string{0: "", 1: "", 2: "may"} {
		upper := issue(t, length(n), root, upperKey.Public(), rootKey)
		lower := issue(t, nil, upper, lowerKey.Public(), upperKey)
		a, err := authority.Load(authority.EncodeCertificates(lower, upper), keyPEM(t, lowerKey), authority.EncodeCertificates(root))
		if n == 0 {
			require.ErrorContains(t, err, "may not sign anything", "an authority where the one above it wants none")
			continue
		}
		require.NoError(t, err)
		issued, err := a.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Minute})
		require.NoError(t, err, "machines need no further authority")
		require.Len(t, verify(t, issued.ChainPEM, []*x509.Certificate{root}), 4)
		if want == "" {
			require.Error(t, a.MayDelegate())
			continue
		}
		require.NoError(t, a.MayDelegate())
		delegated := beneath(t, a)
		issued, err = delegated.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Second * 30})
		require.NoError(t, err)
		require.Len(t, verify(t, issued.ChainPEM, []*x509.Certificate{root}), 5)
	}
}

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for _, key := range []crypto.Signer{newKey(t), edwards, p384, rsaKey(t, 2048)} {
		read, err := authority.ParseKey(keyPEM(t, key))
		require.NoError(t, err)
		require.Equal(t, key, read)
	}
}

func TestAnAliasIsBesideTheIdentity(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	signer := beneath(t, root) // which may certify no host, and so no name that could be one
	for enrolment, critical := range map[string]bool{"e-17": false, "": true} {
		issued, err := signer.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Enrolment: enrolment, Alias: "shop;cart;v1;cart;v1;", Lifetime: time.Minute})
		require.NoError(t, err)
		c := verify(t, issued.ChainPEM, root.Roots())[0]
		require.Equal(t, "shop;cart;v1;cart;v1;", identity.AliasOf(c))
		id, err := identity.Of(c)
		require.NoError(t, err)
		require.Equal(t, cart, id)
		require.Empty(t, c.UnhandledCriticalExtensions)
		require.Equal(t, enrolment, identity.EnrolmentOf(c))
		require.Equal(t, critical, slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Critical && e.Id.String() == "2.5.29.17" }))
	}
	plain, err := root.Sign(authority.Request{CSR: request(t, newKey(t)), ID: cart, Lifetime: time.Minute})
	require.NoError(t, err)
	require.Empty(t, identity.AliasOf(plain.Certificate))
}

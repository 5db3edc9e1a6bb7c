// Package authority signs the certificates of a mesh: for machines, servers and subordinate
// authorities. It does no I/O: certificates and keys come in and go out as PEM.
package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// RootLifetime is the default lifetime of a mesh's root.
	RootLifetime = 10 * 365 * 24 * time.Hour

	// rootPathLength allows one level of authorities below a root.
	rootPathLength = 1
)

// machinesOnly marks the certificates of authorities made by Delegate. It is part of the subject,
// which the bearer cannot change, so a thief of such an authority's key cannot vouch for servers.
const machinesOnly = "signs machines alone"

// Authority signs certificates.
type Authority struct {
	certificate   *x509.Certificate
	key           crypto.Signer
	intermediates []byte              // the certificates between the authority's and the root, PEM
	self          []byte              // its own certificate, PEM; empty for a root
	roots         []*x509.Certificate // all roots that members trust
	root          *x509.Certificate   // the root at the end of its chain
	notAfter      time.Time           // the earliest end of any certificate in its chain
	pathLength    int                 // how many levels of authorities may be below it
}

// NewRoot creates a root for a trust domain.
func NewRoot(trustDomain string, lifetime time.Duration) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	return NewRootOf(key, trustDomain, lifetime)
}

// NewRootOf is NewRoot with an existing key, which may be in another device.
func NewRootOf(key crypto.Signer, trustDomain string, lifetime time.Duration) (*Authority, error) {
	if err := checkKey(key.Public()); err != nil {
		return nil, fmt.Errorf("make a root for %s: %w", trustDomain, err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{Organization: []string{"pgmesh"}, CommonName: "root of " + trustDomain + " " + now.UTC().Format("2006-01-02T15:04:05Z")},
		NotBefore:             now.Add(-backdate(lifetime)),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLen:            rootPathLength,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a root for %s: %w", trustDomain, err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return of([]*x509.Certificate{c}, key, []*x509.Certificate{c})
}

// Load reads an authority from PEM: its certificate and the intermediates up to its root, its key,
// and the trusted roots. roots may be empty if the authority is a root itself. Load refuses an
// authority that cannot sign usable certificates.
func Load(chain, key, roots []byte) (*Authority, error) {
	return LoadWith(chain, func(*x509.Certificate) (crypto.Signer, error) { return ParseKey(key) }, roots)
}

// LoadWith is Load with a function that returns the key for the certificate.
func LoadWith(chain []byte, key func(*x509.Certificate) (crypto.Signer, error), roots []byte) (*Authority, error) {
	certificates, err := ParseCertificates(chain)
	if err != nil {
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	signer, err := key(certificates[0])
	if err != nil {
		return nil, fmt.Errorf("the authority's key: %w", err)
	}
	trusted := certificates[:1]
	if len(bytes.TrimSpace(roots)) > 0 {
		if trusted, err = ParseCertificates(roots); err != nil {
			return nil, fmt.Errorf("the authority's roots: %w", err)
		}
	} else if !selfSigned(certificates[0]) {
		return nil, fmt.Errorf("the authority's certificate (%s) was signed by %s: give the roots that it leads to", certificates[0].Subject, certificates[0].Issuer)
	}
	return of(certificates, signer, trusted)
}

// of creates an authority. It checks everything up front, so that no member gets a certificate that
// nobody accepts.
func of(chain []*x509.Certificate, key crypto.Signer, roots []*x509.Certificate) (*Authority, error) {
	c := chain[0]
	if !c.BasicConstraintsValid || !c.IsCA || (c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0) {
		return nil, fmt.Errorf("the certificate of %s is not that of an authority: it may not sign others", c.Subject)
	}
	if !Fits(key, c) {
		return nil, fmt.Errorf("the key is not that of the certificate of %s: its public key is another", c.Subject)
	}
	if err := checkKey(c.PublicKey); err != nil {
		return nil, fmt.Errorf("the authority %s: %w", c.Subject, err)
	}
	path, err := pathToRoot(chain, roots)
	if err != nil {
		return nil, err
	}
	a := &Authority{certificate: c, key: key, roots: roots, root: path[len(path)-1], notAfter: c.NotAfter, pathLength: pathLength(path)}
	if a.pathLength < 0 {
		return nil, fmt.Errorf("the authority %s may not sign anything: the path length of one above it forbids any authority there", c.Subject)
	}
	for i, each := range path {
		if each.NotAfter.Before(a.notAfter) {
			a.notAfter = each.NotAfter
		}
		if i > 0 && i < len(path)-1 {
			a.intermediates = append(a.intermediates, EncodeCertificates(each)...)
		}
	}
	if len(path) > 1 {
		a.self = EncodeCertificates(c)
	}
	return a, nil
}

// pathToRoot verifies the chain up to a root, once for TLS servers and once for clients: the usages
// in an authority's certificate limit those it signs for.
func pathToRoot(chain, roots []*x509.Certificate) ([]*x509.Certificate, error) {
	var path []*x509.Certificate
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		lines, err := chain[0].Verify(x509.VerifyOptions{
			Roots: Pool(roots...), Intermediates: Pool(chain[1:]...), KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return nil, fmt.Errorf("the authority %s: %w", chain[0].Subject, explainVerify(chain[0], err))
		}
		path = lines[0]
	}
	return path, nil
}

// explainVerify explains in words why an authority's certificate does not verify.
func explainVerify(c *x509.Certificate, err error) error {
	now := time.Now()
	unknown, invalid := x509.UnknownAuthorityError{}, x509.CertificateInvalidError{}
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("it has expired at %s: have it issued again", stamp(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Errorf("it is valid from %s on, and here it is %s: is a clock wrong?", stamp(c.NotBefore), stamp(now))
	case errors.As(err, &unknown):
		return errors.New("it does not lead to any of the roots: its file has to have all certificates between it and the root, its own first")
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return errors.New("its extended key usage, or that of one above it, has to allow both clients and servers of TLS, or not be there")
	default:
		return err
	}
}

// pathLength returns how many levels of authorities may be below the first certificate: the
// smallest limit that any certificate on the path sets.
func pathLength(path []*x509.Certificate) int {
	least := 1 << 10 // no limit
	for beneath, c := range path {
		if c.MaxPathLen > 0 || c.MaxPathLenZero {
			least = min(least, c.MaxPathLen-beneath)
		}
	}
	return least
}

// Certificate returns the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// Root returns the root at the end of the authority's chain.
func (a *Authority) Root() *x509.Certificate { return a.root }

// Roots returns all roots that members trust.
func (a *Authority) Roots() []*x509.Certificate { return a.roots }

// RootsPEM returns Roots in PEM.
func (a *Authority) RootsPEM() []byte { return EncodeCertificates(a.roots...) }

// ChainPEM returns the authority's certificate and the intermediates up to its root, as Load reads
// them.
func (a *Authority) ChainPEM() []byte {
	return append(EncodeCertificates(a.certificate), a.intermediates...)
}

// KeyPEM returns the authority's private key for Load. Whoever has it can sign as the authority.
func (a *Authority) KeyPEM() ([]byte, error) { return EncodeKey(a.key) }

// NotAfter returns when the authority's chain ends.
func (a *Authority) NotAfter() time.Time { return a.notAfter }

// MayDelegate returns an error if the authority may have no authorities below it.
func (a *Authority) MayDelegate() error {
	if a.pathLength < 1 {
		return fmt.Errorf("the authority %s may not have others beneath it: the path length in its certificate, or in one above it, forbids that; "+
			"have it issued with a path length of one more", a.certificate.Subject)
	}
	return nil
}

// Delegated reports whether a certificate is that of an authority made by Delegate, which may vouch
// for machines only.
func Delegated(c *x509.Certificate) bool {
	for _, unit := range c.Subject.OrganizationalUnit {
		if c.IsCA && unit == machinesOnly {
			return true
		}
	}
	return false
}

// NewKey generates a key of the mesh's default type: ECDSA P-256, which signs fast and which Envoy
// supports.
func NewKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// serial returns a random, unguessable serial number. The second highest bit is set, so the number
// is never short.
func serial() *big.Int {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	bits[0] = bits[0]&0x7f | 0x40
	return new(big.Int).SetBytes(bits[:])
}

// maxBackdate is how far a certificate's NotBefore lies in the past, for peers whose clocks are
// slow.
const maxBackdate = 5 * time.Minute

// backdate returns maxBackdate, or a tenth of the lifetime if that is less.
func backdate(lifetime time.Duration) time.Duration { return min(maxBackdate, lifetime/10) }

func selfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignatureFrom(c) == nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

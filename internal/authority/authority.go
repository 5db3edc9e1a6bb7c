// Package authority signs the certificates of a mesh: those of machines and servers, and those of further authorities beneath it. It
// reads and keeps nothing: certificates and keys come in and go out as PEM.
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
	// RootLifetime is how long a mesh's root is valid if nobody says otherwise.
	RootLifetime = 10 * 365 * 24 * time.Hour

	// rootPathLength lets a root have authorities beneath it, which have none.
	rootPathLength = 1
)

// machinesOnly marks the certificates of authorities that Delegate made. It is part of their name, which they cannot change: so whoever
// steals the key of one still cannot vouch for servers.
const machinesOnly = "signs machines alone"

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	above       []byte              // the certificates between the authority's own and the root, PEM
	self        []byte              // its own one, unless it is a root
	roots       []*x509.Certificate // all that are trusted with it
	root        *x509.Certificate   // the one that it leads to
	notAfter    time.Time           // when the first certificate of its chain ends
	room        int                 // how many authorities may be beneath it
}

// NewRoot makes a root for a trust domain.
func NewRoot(trustDomain string, lifetime time.Duration) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	return NewRootOf(key, trustDomain, lifetime)
}

// NewRootOf is NewRoot with a key that somebody has, perhaps elsewhere.
func NewRootOf(key crypto.Signer, trustDomain string, lifetime time.Duration) (*Authority, error) {
	if err := checkKey(key.Public()); err != nil {
		return nil, fmt.Errorf("make a root for %s: %w", trustDomain, err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{Organization: []string{"pgmesh"}, CommonName: "root of " + trustDomain + " " + now.UTC().Format("2006-01-02T15:04:05Z")},
		NotBefore:             now.Add(-early(lifetime)),
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

// Load reads an authority: its certificate and those between it and its root, its key, and the roots that are trusted with it, all PEM.
// The roots may be left out for one that is a root itself. What it cannot sign with is refused, with the reason.
func Load(chain, key, roots []byte) (*Authority, error) {
	return LoadWith(chain, func(*x509.Certificate) (crypto.Signer, error) { return ParseKey(key) }, roots)
}

// LoadWith is Load with a key that is asked for by its certificate.
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

// of checks what can be checked before anything is signed, so that nobody is given a certificate that nobody accepts.
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
	line, err := lineage(chain, roots)
	if err != nil {
		return nil, err
	}
	a := &Authority{certificate: c, key: key, roots: roots, root: line[len(line)-1], notAfter: c.NotAfter, room: room(line)}
	if a.room < 0 {
		return nil, fmt.Errorf("the authority %s may not sign anything: the path length of one above it forbids any authority there", c.Subject)
	}
	for i, each := range line {
		if each.NotAfter.Before(a.notAfter) {
			a.notAfter = each.NotAfter
		}
		if i > 0 && i < len(line)-1 {
			a.above = append(a.above, EncodeCertificates(each)...)
		}
	}
	if len(line) > 1 {
		a.self = EncodeCertificates(c)
	}
	return a, nil
}

// lineage is the way from an authority to a root: for both sides of TLS, for its own constraints apply to whom it signs.
func lineage(chain, roots []*x509.Certificate) ([]*x509.Certificate, error) {
	var line []*x509.Certificate
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		lines, err := chain[0].Verify(x509.VerifyOptions{
			Roots: Pool(roots...), Intermediates: Pool(chain[1:]...), KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return nil, fmt.Errorf("the authority %s: %w", chain[0].Subject, unfit(chain[0], err))
		}
		line = lines[0]
	}
	return line, nil
}

// unfit says in words what is wrong with an authority.
func unfit(c *x509.Certificate, err error) error {
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

// room is how many authorities may be beneath the first of a chain: the least that anyone in it leaves.
func room(line []*x509.Certificate) int {
	least := 1 << 10 // no limit
	for beneath, c := range line {
		if c.MaxPathLen > 0 || c.MaxPathLenZero {
			least = min(least, c.MaxPathLen-beneath)
		}
	}
	return least
}

// Certificate is the authority's own.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// Root is the one of the roots that the authority leads to.
func (a *Authority) Root() *x509.Certificate { return a.root }

// Roots are all that are trusted with the authority.
func (a *Authority) Roots() []*x509.Certificate { return a.roots }

// RootsPEM is Roots as PEM.
func (a *Authority) RootsPEM() []byte { return EncodeCertificates(a.roots...) }

// ChainPEM is the authority's certificate and those between it and its root. It is what Load reads.
func (a *Authority) ChainPEM() []byte {
	return append(EncodeCertificates(a.certificate), a.above...)
}

// KeyPEM is the authority's key, for Load. It opens everything: keep it sealed.
func (a *Authority) KeyPEM() ([]byte, error) { return EncodeKey(a.key) }

// NotAfter is when the authority ends, or one above it does.
func (a *Authority) NotAfter() time.Time { return a.notAfter }

// MayDelegate is nil if the authority may have others beneath it.
func (a *Authority) MayDelegate() error {
	if a.room < 1 {
		return fmt.Errorf("the authority %s may not have others beneath it: the path length in its certificate, or in one above it, forbids that; "+
			"have it issued with a path length of one more", a.certificate.Subject)
	}
	return nil
}

// Delegated tells whether a certificate is that of an authority that Delegate made. What is signed by such a one counts for machines alone.
func Delegated(c *x509.Certificate) bool {
	for _, unit := range c.Subject.OrganizationalUnit {
		if c.IsCA && unit == machinesOnly {
			return true
		}
	}
	return false
}

// NewKey makes a key of the sort that this mesh uses: ECDSA P-256, which signs fast and which Envoy takes.
func NewKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// serial is that of a certificate: it cannot be guessed, and no two are the same.
func serial() *big.Int {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	bits[0] = bits[0]&0x7f | 0x40
	return new(big.Int).SetBytes(bits[:])
}

// earliest is how long before now a certificate begins to be valid, for clocks of others that are behind.
const earliest = 5 * time.Minute

// early is less for a short life, of which half counts.
func early(lifetime time.Duration) time.Duration { return min(earliest, lifetime/10) }

func selfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignatureFrom(c) == nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

package authority

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity"
)

// Request describes a certificate to sign.
type Request struct {
	CSR       *CSR
	ID        spiffeid.ID   // the identity to certify
	Enrolment string        // the machine's id, empty for others
	Alias     string        // what metrics call the machine's workload, or ""
	Hosts     []string      // DNS names and IP addresses of a server
	Lifetime  time.Duration // cut short where the authority ends earlier
}

// Issued is a signed certificate.
type Issued struct {
	Certificate *x509.Certificate
	ChainPEM    []byte // the certificate and the intermediates up to the root
}

// minLifetime is the shortest lifetime worth issuing: below it, the authority itself is about to
// end.
const minLifetime = time.Second

// Sign issues a certificate for an identity. Of the CSR it uses only the key. If the CSR asks for
// another identity, Sign refuses it, because its sender is mistaken about who it is; it ignores
// everything else in the CSR.
func (a *Authority) Sign(r Request) (Issued, error) {
	if r.ID.IsZero() {
		return Issued{}, errors.New("sign a certificate: there is no identity to certify")
	}
	if err := r.CSR.asksFor(r.ID); err != nil {
		return Issued{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{SerialNumber: r.Enrolment},
		URIs:        []*url.URL{r.ID.URL()},
		KeyUsage:    keyUsage(r.CSR),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		// Write "not a CA" explicitly: an old library may take a certificate without it for an
		// authority.
		BasicConstraintsValid: true,
	}
	if err := setHosts(template, r.Hosts); err != nil {
		return Issued{}, err
	}
	if r.Alias != "" && len(r.Hosts) == 0 {
		names, err := identity.WithAlias(r.ID.URL(), r.Alias, r.Enrolment == "")
		if err != nil {
			return Issued{}, fmt.Errorf("sign a certificate: its alias: %w", err)
		}
		template.ExtraExtensions = append(template.ExtraExtensions, names)
	}
	return a.issue(template, r.CSR, r.Lifetime)
}

// Delegate issues a certificate for a subordinate authority, which may sign for machines but may
// have no authority below it.
func (a *Authority) Delegate(csr *CSR, name string, lifetime time.Duration) (Issued, error) {
	if err := a.MayDelegate(); err != nil {
		return Issued{}, err
	}
	return a.issue(&x509.Certificate{
		Subject:               pkix.Name{Organization: []string{"pgmesh"}, OrganizationalUnit: []string{machinesOnly}, CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		// Machines are verified by SPIFFE id alone. Forbid all DNS names and addresses, so that no
		// client that trusts the roots and verifies servers by name can be deceived by this
		// authority.
		PermittedDNSDomainsCritical: true,
		ExcludedDNSDomains:          []string{""},
		ExcludedIPRanges:            everyAddress,
	}, csr, lifetime)
}

// everyAddress covers all IPv4 and IPv6 addresses.
var everyAddress = []*net.IPNet{
	{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 8*net.IPv4len)},
	{IP: net.IPv6zero, Mask: net.CIDRMask(0, 8*net.IPv6len)},
}

func (a *Authority) issue(template *x509.Certificate, csr *CSR, lifetime time.Duration) (Issued, error) {
	if lifetime < minLifetime {
		return Issued{}, fmt.Errorf("sign a certificate: a life of %s is too short", lifetime)
	}
	now := time.Now()
	template.SerialNumber = serial()
	template.NotBefore, template.NotAfter = now.Add(-backdate(lifetime)), now.Add(lifetime)
	if template.NotBefore.Before(a.certificate.NotBefore) {
		template.NotBefore = a.certificate.NotBefore
	}
	if template.NotAfter.After(a.notAfter) {
		template.NotAfter = a.notAfter
	}
	if template.NotAfter.Sub(now) < minLifetime {
		return Issued{}, fmt.Errorf("the authority %s ends at %s, and can give no certificate of any use", a.certificate.Subject, stamp(a.notAfter))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, csr.request.PublicKey, a.key)
	if err != nil {
		return Issued{}, fmt.Errorf("sign a certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return Issued{}, fmt.Errorf("read what was signed: %w", err)
	}
	return Issued{c, slices.Concat(EncodeCertificates(c), a.self, a.intermediates)}, nil
}

// asksFor refuses a CSR that names another identity than id.
func (c *CSR) asksFor(id spiffeid.ID) error {
	for _, uri := range c.request.URIs {
		if uri.String() != id.String() {
			return refused("it names %s, and the certificate would be for %s", uri, id)
		}
	}
	return nil
}

// keyUsage returns the uses of a key in TLS. RSA keys also encipher, in TLS 1.2.
func keyUsage(csr *CSR) x509.KeyUsage {
	if csr.request.PublicKeyAlgorithm == x509.RSA {
		return x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	}
	return x509.KeyUsageDigitalSignature
}

// hostName matches a DNS name without a wildcard.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?$`)

const (
	maxHosts    = 64
	maxHostName = 253
)

func setHosts(template *x509.Certificate, hosts []string) error {
	if len(hosts) > maxHosts {
		return refused("there are %d hosts, and %d are the most", len(hosts), maxHosts)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if len(host) > maxHostName || !hostName.MatchString(host) {
			return refused("the host %.300q is neither an IP address nor a name of DNS", host)
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return nil
}

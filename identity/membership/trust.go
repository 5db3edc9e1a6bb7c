package membership

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Trust has the roots that a member trusts: those of its own mesh, and those of other meshes, each
// for its own trust domain only.
type Trust struct {
	Domain  string
	Aliases []string
	// Roots are the mesh's own.
	Roots []*x509.Certificate
	// Federated has the roots of other meshes, by trust domain.
	Federated map[string][]*x509.Certificate
	// Unusable has an error for each other mesh that cannot be trusted because its entry is
	// invalid.
	Unusable []error

	active  []byte
	message *identityv1.Trust
}

// ParseTrust parses a trust. It fails without a root of the mesh itself; an invalid entry for
// another mesh only makes that mesh untrusted.
func ParseTrust(m *identityv1.Trust) (*Trust, error) {
	domain, err := spiffeid.TrustDomainFromString(m.GetTrustDomain())
	if err != nil {
		return nil, fmt.Errorf("the trust domain %q: %w", m.GetTrustDomain(), err)
	}
	roots, err := authority.ParseCertificates(m.GetRoots())
	if err != nil {
		return nil, fmt.Errorf("the roots of %s: %w", domain, err)
	}
	t := &Trust{
		Domain: domain.Name(), Aliases: m.GetAliases(), Roots: roots, Federated: map[string][]*x509.Certificate{},
		active: m.GetActiveRoot(), message: proto.CloneOf(m),
	}
	for _, other := range m.GetFederated() {
		if err := t.federate(other); err != nil {
			t.Unusable = append(t.Unusable, err)
		}
	}
	return t, nil
}

func (t *Trust) federate(other *identityv1.Federated) error {
	domain, err := spiffeid.TrustDomainFromString(other.GetTrustDomain())
	if err != nil {
		return fmt.Errorf("the other trust domain %q: %w", other.GetTrustDomain(), err)
	}
	if t.isOwn(domain) {
		return fmt.Errorf("the other trust domain %s is this mesh's own, for which its own roots alone vouch", domain)
	}
	roots, err := authority.ParseCertificates(other.GetRoots())
	if err != nil {
		return fmt.Errorf("the roots of %s: %w", domain, err)
	}
	t.Federated[domain.Name()] = append(t.Federated[domain.Name()], roots...)
	return nil
}

// Message returns the message that the trust was parsed from. The caller must not change it.
func (t *Trust) Message() *identityv1.Trust { return t.message }

func (t *Trust) equals(m *identityv1.Trust) bool { return proto.Equal(t.message, m) }

func (t *Trust) isOwn(domain spiffeid.TrustDomain) bool {
	return domain.Name() == t.Domain || slices.Contains(t.Aliases, domain.Name())
}

// shares reports whether two trusts have a root in common.
func (t *Trust) shares(other *Trust) bool {
	return slices.ContainsFunc(t.Roots, func(c *x509.Certificate) bool { return slices.ContainsFunc(other.Roots, c.Equal) })
}

// RootsOf returns the roots that vouch for a trust domain.
func (t *Trust) RootsOf(domain spiffeid.TrustDomain) []*x509.Certificate {
	if t.isOwn(domain) {
		return t.Roots
	}
	return t.Federated[domain.Name()]
}

// all returns the roots of every mesh.
func (t *Trust) all() []*x509.Certificate {
	out := slices.Clone(t.Roots)
	for _, roots := range t.Federated {
		out = append(out, roots...)
	}
	return out
}

// Peer is the other side of a connection.
type Peer struct {
	ID spiffeid.ID
	// Chain is the verified path from the peer's certificate to a root of its trust domain.
	Chain []*x509.Certificate
	// Federated is true if the peer is of another mesh.
	Federated bool
}

// Certificate returns the peer's own certificate.
func (p Peer) Certificate() *x509.Certificate { return p.Chain[0] }

// Root returns the root that vouches for the peer.
func (p Peer) Root() *x509.Certificate { return p.Chain[len(p.Chain)-1] }

// Verify verifies a certificate chain against the roots of its own trust domain. An authority that
// signs for machines only (see authority.Delegated) does not vouch for a server.
func (t *Trust) Verify(chain []*x509.Certificate, usage x509.ExtKeyUsage) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errors.New("no certificate was shown")
	}
	id, err := identity.Of(chain[0])
	if err != nil {
		return Peer{}, err
	}
	roots := t.RootsOf(id.TrustDomain())
	if len(roots) == 0 {
		return Peer{}, fmt.Errorf("%s is of the trust domain %s, which is neither this mesh's (%s) nor one that it trusts", id, id.TrustDomain(), t.Domain)
	}
	line, err := pathToRoot(id, chain, roots, usage)
	if err != nil {
		return Peer{}, err
	}
	return Peer{ID: id, Chain: line, Federated: !t.isOwn(id.TrustDomain())}, nil
}

// pathToRoot returns a verified path from a certificate to one of the roots.
func pathToRoot(id spiffeid.ID, chain, roots []*x509.Certificate, usage x509.ExtKeyUsage) ([]*x509.Certificate, error) {
	lines, err := chain[0].Verify(x509.VerifyOptions{
		Roots: authority.Pool(roots...), Intermediates: authority.Pool(chain[1:]...), KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return nil, explain(id, chain, err)
	}
	if _, server := identity.ServerOf(id); !server {
		return lines[0], nil
	}
	for _, line := range lines {
		if !slices.ContainsFunc(line, authority.Delegated) {
			return line, nil
		}
	}
	return nil, fmt.Errorf("the certificate for the server %s was signed by an authority that may sign those of machines alone: its key may be in the wrong hands", id)
}

// ErrUntrusted is returned for a certificate that no trusted root vouches for.
var ErrUntrusted = errors.New("none of the roots that are trusted here vouches for the certificate")

// ErrClock is returned for a certificate that is not valid at this time.
var ErrClock = errors.New("is a clock wrong?")

func explain(id spiffeid.ID, chain []*x509.Certificate, err error) error {
	now := time.Now()
	for _, c := range chain {
		switch {
		case now.Before(c.NotBefore):
			return fmt.Errorf("the certificate of %s is valid from %s on, and here it is %s: %w", id, stamp(c.NotBefore), stamp(now), ErrClock)
		case now.After(c.NotAfter):
			return fmt.Errorf("the certificate of %s was valid until %s, and here it is %s: unless it was not renewed, %w", id, stamp(c.NotAfter), stamp(now), ErrClock)
		}
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return fmt.Errorf("%w of %s, which was signed by %s", ErrUntrusted, id, bytes.TrimSpace([]byte(chain[len(chain)-1].Issuer.String())))
	}
	return fmt.Errorf("the certificate of %s: %w", id, err)
}

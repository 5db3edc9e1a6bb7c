// Package trust knows what the mesh trusts: its authorities, those of other meshes, who was
// revoked, and whose tokens machines may join with. It follows what mcp-server tells of that, and
// keeps it while mcp-server is away. It also has the authority that discovery signs with.
package trust

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/membership"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// State is what the mesh trusts at a moment. It never changes.
type State struct {
	*membership.Trust

	identities map[string]*identityv1.Revocation // revoked, by identity without trust domain
	enrolments map[string]*identityv1.Revocation // revoked, by enrolment
}

// Read reads what a mesh trusts.
func Read(told *identityv1.Trust) (*State, error) {
	trust, err := membership.ParseTrust(told)
	if err != nil {
		return nil, err
	}
	return stateOf(trust), nil
}

func stateOf(trust *membership.Trust) *State {
	s := &State{Trust: trust, identities: map[string]*identityv1.Revocation{}, enrolments: map[string]*identityv1.Revocation{}}
	for _, r := range trust.Message().GetRevoked() {
		if r.GetIdentity() != "" {
			s.identities[r.GetIdentity()] = r
		}
		if r.GetEnrolment() != "" {
			s.enrolments[r.GetEnrolment()] = r
		}
	}
	return s
}

// Lifetime is the lifetime, in seconds, of certificates in a namespace; 0 if the mesh does not set
// one.
func (s *State) Lifetime(namespace string) int64 {
	set := s.Message().GetCertificateLifetimes()
	return cmp.Or(set[namespace], set[""])
}

// Member is a member of this mesh, by a valid certificate.
type Member struct {
	ID spiffeid.ID
	// Workload is a machine's identity; empty for a server.
	Workload  identity.Workload
	Server    bool
	Enrolment string
	NotAfter  time.Time
}

// RefusedError says why a certificate, or its bearer, is refused.
type RefusedError struct {
	Reason identityv1.Refusal
	// ID and Enrolment are what is known of the bearer.
	ID, Enrolment string
	Text          string
	Revocation    *identityv1.Revocation // of a bearer that was revoked
}

func (e *RefusedError) Error() string { return e.Text }

// Judge returns the member that shows a certificate, with its intermediates behind it. The
// handshake has proved that the member has the key. All errors are of type RefusedError.
func (s *State) Judge(chain []*x509.Certificate) (*Member, error) {
	if len(chain) == 0 {
		return nil, &RefusedError{
			Reason: identityv1.Refusal_REFUSAL_NO_CREDENTIAL,
			Text:   "no certificate was shown: members of the mesh have one; a machine gets its first by a join token (mesh-agent join)",
		}
	}
	leaf := chain[0]
	id, err := identity.Of(leaf)
	if err != nil {
		return nil, &RefusedError{Reason: identityv1.Refusal_REFUSAL_CERTIFICATE, Text: "the certificate does not say who shows it: " + err.Error()}
	}
	m := &Member{ID: id, Enrolment: identity.EnrolmentOf(leaf), NotAfter: leaf.NotAfter}
	peer, err := s.Verify(chain, x509.ExtKeyUsageClientAuth)
	if text := fault(leaf, err); text != "" {
		return nil, m.refused("the certificate for %s %s", id, text)
	}
	if err == nil && peer.Federated {
		return nil, m.refused("the certificate for %s is of another mesh, whose members are none of this one, which is %s", id, s.Domain)
	}
	var machine bool
	m.Workload, machine = identity.WorkloadOf(id)
	if _, m.Server = identity.ServerOf(id); !machine && !m.Server {
		return nil, m.refused("the certificate for %s names neither a machine nor a server of pgmesh", id)
	}
	return m, s.Standing(m)
}

// RequireMachine returns nil for a machine.
func (m *Member) RequireMachine() error {
	if m.Server {
		return m.refused("%s is a server of pgmesh, and no machine", m.ID)
	}
	return nil
}

// refused says what is wrong with the member's certificate.
func (m *Member) refused(format string, args ...any) error {
	return &RefusedError{Reason: identityv1.Refusal_REFUSAL_CERTIFICATE, ID: m.ID.String(), Enrolment: m.Enrolment, Text: fmt.Sprintf(format, args...)}
}

// fault says why a certificate is not valid, and what to do about it.
func fault(leaf *x509.Certificate, err error) string {
	switch {
	case err == nil:
		return ""
	case time.Now().After(leaf.NotAfter):
		return fmt.Sprintf("has expired at %s, and cannot be renewed any more: join again with a new token (mesh-agent join)", leaf.NotAfter.UTC().Format(time.RFC3339))
	case errors.Is(err, membership.ErrUntrusted):
		return "was signed by no authority that the mesh trusts: join again with a new token, made for this mesh (mesh-agent join)"
	default:
		return "does not count: " + err.Error()
	}
}

// Standing returns nil unless a member was revoked.
func (s *State) Standing(m *Member) error {
	r := s.Revocation(m.Workload, m.Enrolment)
	if r == nil {
		return nil
	}
	return &RefusedError{
		Reason: identityv1.Refusal_REFUSAL_REVOKED, ID: m.ID.String(), Enrolment: m.Enrolment, Revocation: r,
		Text: fmt.Sprintf("%s is no member of the mesh any more: %s", m.ID, Revoked(r)),
	}
}

// Revocation says why nobody may be a machine of an identity, and of an enrolment, which may be
// empty; nil if a machine may.
func (s *State) Revocation(w identity.Workload, enrolment string) *identityv1.Revocation {
	if r := s.identities[w.Path()]; r != nil || enrolment == "" {
		return r
	}
	return s.enrolments[enrolment]
}

// Revoked says a revocation in words.
func Revoked(by *identityv1.Revocation) string {
	text := "the machine " + by.GetEnrolment()
	if by.GetIdentity() != "" {
		text = "the identity " + by.GetIdentity()
	}
	text += " was revoked"
	if at := by.GetAt(); at != nil {
		text += " at " + at.AsTime().UTC().Format(time.RFC3339)
	}
	if by.GetReason() != "" {
		text += fmt.Sprintf(" (%s)", by.GetReason())
	}
	return text + "; mcp-client identity restore takes that back"
}

// SameAuthorities reports whether another state has the same authorities.
func (s *State) SameAuthorities(other *State) bool {
	return other != nil && s.Domain == other.Domain && slices.Equal(s.Aliases, other.Aliases) &&
		bytes.Equal(s.Message().GetRoots(), other.Message().GetRoots())
}

// says reports whether another state says the same.
func (s *State) says(other *State) bool { return proto.Equal(s.Message(), other.Message()) }

// forMachines is what machines are told.
func (s *State) forMachines() *identityv1.Trust {
	t := s.Message()
	return &identityv1.Trust{
		TrustDomain: t.GetTrustDomain(), Aliases: t.GetAliases(), Roots: t.GetRoots(), ActiveRoot: t.GetActiveRoot(), Federated: t.GetFederated(),
	}
}

// tellsMachines reports whether machines are told the same by another state.
func (s *State) tellsMachines(other *State) bool {
	return other != nil && proto.Equal(s.forMachines(), other.forMachines())
}

// ForProxies is what proxies have to know. It is about machines: servers do not call each other
// through proxies.
func (s *State) ForProxies() mesh.Trust {
	t := mesh.Trust{OwnGateways: s.Message().GetOwnGateways()}
	for _, r := range s.Message().GetRevoked() {
		if strings.HasPrefix(r.GetIdentity(), "ns/") {
			t.Revoked = append(t.Revoked, r.GetIdentity())
		}
	}
	for domain := range s.Federated {
		t.Federated = append(t.Federated, domain)
	}
	return t
}

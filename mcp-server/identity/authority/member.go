package authority

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/caller"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// scopes are what each program of the mesh may do here.
var scopes = map[identity.Program][]caller.Scope{
	identity.Discovery: {{Verb: caller.Read}, {Verb: caller.Secrets}, {Verb: caller.Sign}, {Verb: caller.Register}},
	identity.MCPServer: {{Verb: caller.Read}}, // as a relay
}

// Member returns what the bearer of a certificate may do as a server of the mesh; none for others.
// It returns an error if the bearer was revoked, or if a server's certificate was signed by an
// authority that may only sign for machines. It is for [caller.Config].
func (a *Authority) Member(id spiffeid.ID, chains [][]*x509.Certificate) ([]caller.Scope, error) {
	s := a.Current()
	switch {
	case s != nil:
	case !a.cfg.Signs: // the certificates come from files, and no revocations are known yet
		return nil, nil
	default:
		return nil, status.Error(codes.Unavailable, "this server does not know yet whom the mesh trusts: come again")
	}
	if !a.cfg.Signs { // with certificates from files, their own lists say who may do what
		if r := s.revocationOf(id, chains[0][0]); r != nil {
			return nil, refuseRevoked(r)
		}
		return nil, nil
	}
	return s.member(id, chains)
}

func (s *State) member(id spiffeid.ID, chains [][]*x509.Certificate) ([]caller.Scope, error) {
	if r := s.revocationOf(id, chains[0][0]); r != nil {
		return nil, refuseRevoked(r)
	}
	server, is := identity.ServerOf(id)
	if !is {
		return nil, nil
	}
	if err := s.checkServerChain(id, chains); err != nil {
		return nil, err
	}
	return scopes[server.Program], nil
}

// checkServerChain says what is wrong with the certificate of a server.
func (s *State) checkServerChain(id spiffeid.ID, chains [][]*x509.Certificate) error {
	if !s.ours(id) {
		return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "%s is of another trust domain than this mesh's, %s", id, s.trust.GetTrustDomain())
	}
	if end := chains[0][0].NotAfter; time.Now().After(end) {
		return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "the certificate of %s has ended at %s: connect again with its new one", id, end.UTC().Format(time.RFC3339))
	}
	if !slices.ContainsFunc(chains, s.signedByMesh) {
		return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "the certificate of %s does not come from the authority of this mesh itself, "+
			"or from one that is not trusted any more: enrol again with a join token", id)
	}
	return nil
}

// signedByMesh reports whether one of the mesh's own authorities signed the first certificate of a
// chain. An authority from files that was issued again is recognised by its name, for which the
// roots vouch.
func (s *State) signedByMesh(chain []*x509.Certificate) bool {
	if len(chain) < 2 || !slices.ContainsFunc(s.roots, chain[len(chain)-1].Equal) {
		return false
	}
	by := chain[1]
	if s.signers == nil {
		return !slices.ContainsFunc(chain, signing.Delegated)
	}
	return !signing.Delegated(by) && slices.ContainsFunc(s.signers, func(c *x509.Certificate) bool {
		return c.Equal(by) || (len(chain) > 2 && string(c.RawSubject) == string(by.RawSubject))
	})
}

// revocationOf returns the revocation of an identity, or of the enrolment in a certificate; nil if
// neither is revoked.
func (s *State) revocationOf(id spiffeid.ID, c *x509.Certificate) *identityv1.Revocation {
	if len(id.Path()) > 0 {
		if r := s.revoked[id.Path()[1:]]; r != nil && s.ours(id) {
			return r
		}
	}
	if enrolment := identity.EnrolmentOf(c); enrolment != "" {
		return s.revoked[enrolment]
	}
	return nil
}

// ours reports whether an identity is of this mesh's trust domain, or of an alias of it.
func (s *State) ours(id spiffeid.ID) bool {
	return id.TrustDomain().Name() == s.trust.GetTrustDomain() || slices.Contains(s.trust.GetAliases(), id.TrustDomain().Name())
}

func refuseRevoked(r *identityv1.Revocation) error {
	who, why := r.GetIdentity(), ""
	if who == "" {
		who = "the enrolment " + r.GetEnrolment()
	}
	if r.GetReason() != "" {
		why = ": " + r.GetReason()
	}
	return refusal.NewRevoked(r, "%s was revoked at %s%s", who, r.GetAt().AsTime().UTC().Format(time.RFC3339), why)
}

// Server reports whether the caller is a server of the mesh, for limits that servers are exempt
// from.
func (a *Authority) Server(ctx context.Context) bool { return isMember(ctx, a.Member) }

func isMember(ctx context.Context, member func(spiffeid.ID, [][]*x509.Certificate) ([]caller.Scope, error)) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	t, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(t.State.VerifiedChains) == 0 {
		return false
	}
	id, err := identity.Of(t.State.VerifiedChains[0][0])
	if err != nil {
		return false
	}
	scopes, err := member(id, t.State.VerifiedChains)
	return err == nil && len(scopes) > 0
}

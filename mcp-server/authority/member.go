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

	signing "github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// scopes are what the programs of a mesh may do here.
var scopes = map[identity.Program][]caller.Scope{
	identity.Discovery: {{Verb: caller.Read}, {Verb: caller.Secrets}, {Verb: caller.Sign}, {Verb: caller.Register}},
	identity.MCPServer: {{Verb: caller.Read}}, // a relay
}

// Member says what the bearer of a certificate may do by being a server of the mesh, or why nothing: it was revoked, or a server's
// certificate comes from somebody who may vouch for machines alone. It is a [caller.Config]'s.
func (a *Authority) Member(id spiffeid.ID, chains [][]*x509.Certificate) ([]caller.Scope, error) {
	s := a.Current()
	switch {
	case s != nil:
	case !a.cfg.Signs: // others vouch for its callers, and have not said otherwise
		return nil, nil
	default:
		return nil, status.Error(codes.Unavailable, "this server does not know yet whom the mesh trusts: come again")
	}
	if !a.cfg.Signs { // with certificates of files, the lists of those say who may do what
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
	if err := s.vouched(id, chains); err != nil {
		return nil, err
	}
	return scopes[server.Program], nil
}

// vouched tells what is wrong with the certificate of a server.
func (s *State) vouched(id spiffeid.ID, chains [][]*x509.Certificate) error {
	if !s.ours(id) {
		return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "%s is of another trust domain than this mesh's, %s", id, s.trust.GetTrustDomain())
	}
	if end := chains[0][0].NotAfter; time.Now().After(end) {
		return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "the certificate of %s has ended at %s: connect again with its new one", id, end.UTC().Format(time.RFC3339))
	}
	if !slices.ContainsFunc(chains, s.signed) {
		return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "the certificate of %s does not come from the authority of this mesh itself, "+
			"or from one that is not trusted any more: enrol again with a join token", id)
	}
	return nil
}

// signed tells whether one of the mesh's own authorities has signed the first certificate of a chain. One of files that was issued anew is
// known by its name, for which the roots vouch.
func (s *State) signed(chain []*x509.Certificate) bool {
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

// revocationOf is why somebody does not count any more, nil if that is not so.
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
	return refusal.New(identityv1.Refusal_REFUSAL_REVOKED, "%s was revoked at %s%s", who, r.GetAt().AsTime().UTC().Format(time.RFC3339), why)
}

// Public tells which methods are for those who have nothing to show yet. It is a [caller.Config]'s.
func Public(method string) bool { return method == identityv1.AuthorityService_Enroll_FullMethodName }

// Server tells whether a server of the mesh calls. It is for those who hold others to limits.
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

package authority

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/caller"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

const (
	// serverLifetime is the lifetime of a server's certificate. The server renews at half of it, so
	// it survives two weeks without this server.
	serverLifetime = 30 * 24 * time.Hour
	// delegatedLifetime is the lifetime of a discovery's own authority.
	delegatedLifetime = 30 * 24 * time.Hour
)

// The credential that a certificate was given for, as it is recorded.
const (
	byToken       = "token"
	byCertificate = "certificate"
)

// Service serves the APIs that servers of the mesh call.
type Service struct {
	identityv1.UnimplementedAuthorityServiceServer
	identityv1.UnimplementedTrustServiceServer

	*Authority
}

// Register adds the APIs to a server.
func (a *Authority) Register(r grpc.ServiceRegistrar) {
	identityv1.RegisterAuthorityServiceServer(r, &Service{Authority: a})
	identityv1.RegisterTrustServiceServer(r, &Service{Authority: a})
}

// applicant is what is known of who asks for a certificate, for the record.
type applicant struct {
	began      time.Time
	credential string // how it proved who it is
	identity   string
	enrolment  string
	peer       string
	key        []byte // the hash of the key to be certified
}

// Enroll gives a server its certificate.
func (s *Service) Enroll(ctx context.Context, req *identityv1.EnrollRequest) (*identityv1.EnrollResponse, error) {
	who := &applicant{began: time.Now(), credential: byCertificate, peer: peerOf(ctx)}
	if req.GetToken() != "" {
		who.credential = byToken
	}
	state, given, err := s.enroll(ctx, req, who)
	if err = s.recordOutcome(ctx, "enroll", who, given, state, "", err); err != nil {
		return nil, err
	}
	return &identityv1.EnrollResponse{Chain: given.ChainPEM, Trust: state.trust}, nil
}

func (s *Service) enroll(ctx context.Context, req *identityv1.EnrollRequest, who *applicant) (state *State, given signing.Issued, err error) {
	if state, err = s.signing(); err != nil {
		return state, given, err
	}
	csr, err := parse(req.GetCsr(), who)
	if err != nil {
		return state, given, err
	}
	var server identity.Server
	if who.credential == byToken {
		server, err = s.byToken(ctx, req, state, who)
	} else {
		server, err = s.byCertificate(ctx, req, who)
	}
	if err != nil {
		return state, given, err
	}
	server.TrustDomain = state.trust.GetTrustDomain()
	id, err := server.ID()
	if err != nil {
		return state, given, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "the name of the server: %v", err)
	}
	who.identity = id.String()
	if r := state.revocationOf(id, &x509.Certificate{}); r != nil {
		return state, given, refuseRevoked(r)
	}
	given, err = state.signer.Sign(signing.Request{CSR: csr, ID: id, Enrolment: who.enrolment, Hosts: req.GetHosts(), Lifetime: serverLifetime})
	return state, given, err
}

// signing returns the state to sign with.
func (s *Service) signing() (*State, error) {
	state := s.Current()
	switch {
	case !s.cfg.Signs:
		return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "%v", ErrNone)
	case state == nil || state.signer == nil:
		return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "the authority is not known here yet: come again")
	}
	return state, nil
}

func parse(text []byte, who *applicant) (*signing.CSR, error) {
	csr, err := signing.ParseRequest(text)
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%v", err)
	}
	hash := csr.KeyHash()
	who.key = hash[:]
	return csr, nil
}

// byToken uses up a join token of a server.
func (s *Service) byToken(ctx context.Context, req *identityv1.EnrollRequest, state *State, who *applicant) (server identity.Server, err error) {
	token, err := jointoken.Parse(req.GetToken())
	if err != nil {
		return server, refusal.New(identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "%v", err)
	}
	for _, program := range identity.Programs { // before the token is used up
		named := identity.Server{TrustDomain: state.trust.GetTrustDomain(), Program: program, Name: req.GetName()}
		if _, err := named.ID(); err != nil {
			return server, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "the name of the server: %v", err)
		}
	}
	hash := token.Hash()
	joined, err := s.cfg.Members.RedeemServer(ctx, s.Identity(), members.Joining{TokenHash: hash[:], KeyHash: who.key, Peer: who.peer})
	switch {
	case err != nil:
		return server, err
	case joined.Refusal != "":
		return server, refusal.New(refusal.Parse(joined.Refusal), "%s", joined.Detail)
	}
	who.enrolment = joined.Enrolment
	return identity.Server{Program: identity.Program(joined.Program), Name: req.GetName()}, nil
}

// byCertificate identifies a server by its current certificate, which the guard has verified
// already.
func (s *Service) byCertificate(ctx context.Context, req *identityv1.EnrollRequest, who *applicant) (server identity.Server, err error) {
	server, leaf, err := serverIn(ctx)
	if err != nil {
		return server, err
	}
	who.identity, who.enrolment = server.String(), identity.EnrolmentOf(leaf)
	if name := req.GetName(); name != "" && name != server.Name {
		return server, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "the certificate is that of %q, and %q was asked for: join with a token to be called otherwise", server.Name, name)
	}
	return server, nil
}

// serverIn identifies the calling server by its certificate.
func serverIn(ctx context.Context) (server identity.Server, leaf *x509.Certificate, err error) {
	if p, ok := peer.FromContext(ctx); ok {
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.VerifiedChains) > 0 {
			leaf = t.State.VerifiedChains[0][0]
		}
	}
	if leaf == nil || caller.From(ctx).Bearer() {
		return server, nil, refusal.New(identityv1.Refusal_REFUSAL_NO_CREDENTIAL, "there is neither a join token nor a certificate of a server: mcp-server token create --for makes a token")
	}
	id, err := spiffeid.FromString(caller.From(ctx).Identity())
	is := false
	if err == nil {
		server, is = identity.ServerOf(id)
	}
	if !is {
		return server, nil, refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "%s is no server of the mesh", caller.From(ctx).Identity())
	}
	return server, leaf, nil
}

// Delegate gives a discovery an authority of its own.
func (s *Service) Delegate(ctx context.Context, req *identityv1.DelegateRequest) (*identityv1.DelegateResponse, error) {
	who := &applicant{began: time.Now(), credential: byCertificate, peer: peerOf(ctx)}
	state, given, err := s.delegate(ctx, req, who)
	if err = s.recordOutcome(ctx, "delegate", who, given, state, "an authority beneath the mesh's, for machines", err); err != nil {
		return nil, err
	}
	return &identityv1.DelegateResponse{Chain: given.ChainPEM}, nil
}

func (s *Service) delegate(ctx context.Context, req *identityv1.DelegateRequest, who *applicant) (state *State, given signing.Issued, err error) {
	if state, err = s.signing(); err != nil {
		return state, given, err
	}
	server, leaf, err := serverIn(ctx)
	if err != nil {
		return state, given, err
	}
	who.identity, who.enrolment = server.String(), identity.EnrolmentOf(leaf)
	if server.Program != identity.Discovery {
		return state, given, refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "%s is no discovery: those alone give machines certificates", server)
	}
	csr, err := parse(req.GetCsr(), who)
	if err != nil {
		return state, given, err
	}
	given, err = state.signer.Delegate(csr, "discovery "+server.Name+" of "+state.trust.GetTrustDomain(), delegatedLifetime)
	return state, given, err
}

// recordOutcome records and logs the outcome of a call, and returns its error. A certificate that
// cannot be recorded is not given out.
func (s *Service) recordOutcome(ctx context.Context, call string, who *applicant, given signing.Issued, state *State, detail string, err error) error {
	err = s.statusOf(err)
	reason := refusal.Of(err)
	var issue members.Issue
	switch {
	case err == nil:
		issue = issueOf(given.Certificate, state.signer, who.credential)
		issue.Detail = detail
	case reason != identityv1.Refusal_REFUSAL_UNSPECIFIED && reason != identityv1.Refusal_REFUSAL_UNAVAILABLE:
		issue = newIssue()
		issue.Refusal, issue.Detail, issue.Credential = refusal.Word(reason), status.Convert(err).Message(), who.credential
	}
	if issue.ID != [16]byte{} {
		issue.Identity, issue.Enrolment, issue.Peer, issue.KeyHash, issue.Took = who.identity, who.enrolment, who.peer, who.key, time.Since(who.began)
		if err != nil {
			s.refusals.add(ctx, issue)
		} else {
			err = s.statusOf(s.cfg.Members.RecordIssues(ctx, s.Identity(), []members.Issue{issue}))
		}
	}
	s.metrics.called(call, err)
	if err != nil {
		s.cfg.Log.Warn("gave no certificate", "call", call, "identity", who.identity, "address", who.peer, "error", status.Convert(err).Message())
	} else {
		s.cfg.Log.Info("gave a certificate", "call", call, "identity", who.identity, "enrolment", who.enrolment, "address", who.peer, "by", who.credential)
	}
	return err
}

// statusOf turns an error into the status that the caller gets.
func (s *Service) statusOf(err error) error {
	switch {
	case err == nil || refusal.Of(err) != identityv1.Refusal_REFUSAL_UNSPECIFIED:
		return err
	case errors.Is(err, signing.ErrRequest):
		return refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%v", err)
	case store.Temporary(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "the database cannot be reached now: come again")
	}
	if _, is := status.FromError(err); is {
		return err
	}
	s.cfg.Log.Error("the authority cannot answer", "error", err)
	return status.Error(codes.Internal, "the authority cannot answer: see the log of the server")
}

// newIssue returns a row for the record, with a random id.
func newIssue() members.Issue {
	i := members.Issue{At: time.Now()}
	_, _ = rand.Read(i.ID[:]) // which never fails
	return i
}

// issueOf returns the row of a certificate that was given.
func issueOf(c *x509.Certificate, by *signing.Authority, credential string) members.Issue {
	i := newIssue()
	key := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	i.Serial, i.NotAfter, i.Authority, i.Credential, i.KeyHash = c.SerialNumber.Text(16), c.NotAfter, fingerprintOf(by.Root()), credential, key[:]
	i.Enrolment, i.Hosts = identity.EnrolmentOf(c), c.DNSNames
	if len(c.URIs) == 1 {
		i.Identity = c.URIs[0].String()
	}
	return i
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

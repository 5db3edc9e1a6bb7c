// Package jointest is a discovery for tests of joining: it issues real certificates over real TLS.
package jointest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// WebToken is the only JSON web token that the discovery accepts.
const WebToken = "eyJhbGciOiJub25lIn0.e30.c2lnbmVk" //nolint:gosec // of nobody

// Discovery issues certificates to machines and publishes the mesh's trust.
type Discovery struct {
	istio.UnimplementedIstioCertificateServiceServer
	identityv1.UnimplementedTrustServiceServer

	Domain  string
	Address string

	t        testing.TB
	server   *membership.Membership
	lifetime time.Duration

	mu      sync.Mutex
	signer  *authority.Authority // an intermediate under the active root
	roots   []*x509.Certificate
	others  []*identityv1.Federated
	aliases []string
	tokens  map[jointoken.Hash]*grant
	created int
	joined  int
	revoked *identityv1.Revocation // of a machine that may call no more
	changed chan struct{}          // closed and replaced when the trust changes
}

type grant struct {
	identity.Workload

	uses    int
	refusal identityv1.Refusal
}

// New starts a discovery that issues certificates with the given lifetime. The register functions
// add more services before it serves.
func New(t testing.TB, domain string, lifetime time.Duration, register ...func(grpc.ServiceRegistrar)) *Discovery {
	t.Helper()
	d := &Discovery{Domain: domain, t: t, lifetime: lifetime, tokens: map[jointoken.Hash]*grant{}, changed: make(chan struct{})}
	d.Rotate()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.Address = listener.Addr().String()
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(d.server.Server(tls.VerifyClientCertIfGiven, "h2"))), grpc.StreamInterceptor(d.admit))
	istio.RegisterIstioCertificateServiceServer(server, d)
	identityv1.RegisterTrustServiceServer(server, d)
	for _, r := range register {
		r(server)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return d
}

// Rotate makes a new root the active one. Earlier roots stay trusted.
func (d *Discovery) Rotate() {
	root, err := authority.NewRoot(d.Domain, 24*time.Hour)
	require.NoError(d.t, err)
	key, csr := certtest.Request(d.t)
	issued, err := root.Delegate(csr, "eu-1", 12*time.Hour)
	require.NoError(d.t, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.roots = append(d.roots, root.Certificate())
	pem, err := authority.EncodeKey(key)
	require.NoError(d.t, err)
	d.signer, err = authority.Load(issued.ChainPEM, pem, root.RootsPEM())
	require.NoError(d.t, err)
	give := func(_ context.Context, text []byte) (membership.Granted, error) {
		csr, err := authority.ParseRequest(text)
		if err != nil {
			return membership.Granted{}, err
		}
		id, _ := identity.Server{TrustDomain: d.Domain, Program: identity.Discovery, Name: "eu-1"}.ID()
		issued, err := root.Sign(authority.Request{CSR: csr, ID: id, Lifetime: time.Hour})
		return membership.Granted{Chain: issued.ChainPEM, Trust: d.trust()}, err
	}
	if d.server == nil {
		d.server, err = membership.Join(context.Background(), membership.Options{}, give)
		require.NoError(d.t, err)
	}
	d.publish()
}

// Federate makes the mesh trust another mesh.
func (d *Discovery) Federate(domain string, roots []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others = append(d.others, &identityv1.Federated{TrustDomain: domain, Roots: roots})
	d.publish()
}

// Alias adds a trust domain that stands for the mesh's own.
func (d *Discovery) Alias(domain string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aliases = append(d.aliases, domain)
	d.publish()
}

// publish applies the present trust and wakes the streams. The caller holds d.mu.
func (d *Discovery) publish() {
	require.NoError(d.t, d.server.Learn(d.trust()))
	close(d.changed)
	d.changed = make(chan struct{})
}

// Revoke shuts a machine or an identity out, and ends its streams.
func (d *Discovery) Revoke(r *identityv1.Revocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revoked = r
	d.publish()
}

// admit refuses the streams of who was revoked, when they begin and when that happens.
func (d *Discovery) admit(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ended := make(chan error, 1)
	for begun := false; ; begun = true {
		d.mu.Lock()
		err, changed := d.standing(stream.Context()), d.changed
		d.mu.Unlock()
		if err != nil {
			return err // ends the stream, and with it what handles it
		}
		if !begun {
			go func() { ended <- handle(srv, stream) }()
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		}
	}
}

// standing refuses who was revoked. The caller holds d.mu.
func (d *Discovery) standing(ctx context.Context) error {
	leaf := shown(ctx)
	if d.revoked == nil || leaf == nil {
		return nil
	}
	id, _ := identity.Of(leaf)
	if d.revoked.GetEnrolment() == identity.EnrolmentOf(leaf) || id.Path() == "/"+d.revoked.GetIdentity() {
		return refusal.NewRevoked(d.revoked, "%s is no member of the mesh any more", id)
	}
	return nil
}

// shown is the certificate of a caller, nil for none.
func shown(ctx context.Context) *x509.Certificate {
	p, _ := peer.FromContext(ctx)
	chain := p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates
	if len(chain) == 0 {
		return nil
	}
	return chain[0]
}

// Roots returns the mesh's own roots as PEM.
func (d *Discovery) Roots() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return authority.EncodeCertificates(d.roots...)
}

// Signer returns the authority that signs machines' certificates.
func (d *Discovery) Signer() *authority.Authority {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.signer
}

// Created returns how many certificates were issued.
func (d *Discovery) Created() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.created
}

// Token makes a join token with a number of uses. If refusal is set, the token is always refused
// with it.
func (d *Discovery) Token(namespace, account string, uses int, refusal identityv1.Refusal) jointoken.Token {
	d.mu.Lock()
	defer d.mu.Unlock()
	token, err := jointoken.New(d.roots...)
	require.NoError(d.t, err)
	d.tokens[token.Hash()] = &grant{identity.Workload{TrustDomain: d.Domain, Namespace: namespace, ServiceAccount: account}, uses, refusal}
	return token
}

func (d *Discovery) trust() *identityv1.Trust {
	pin := sha256.Sum256(d.roots[len(d.roots)-1].RawSubjectPublicKeyInfo)
	return &identityv1.Trust{
		TrustDomain: d.Domain, Aliases: d.aliases, Roots: authority.EncodeCertificates(d.roots...), Federated: d.others, ActiveRoot: pin[:],
	}
}

// CreateCertificate issues a certificate as Istio's authorities do: the last element of the chain
// has the roots.
func (d *Discovery) CreateCertificate(ctx context.Context, r *istio.IstioCertificateRequest) (*istio.IstioCertificateResponse, error) {
	csr, err := authority.ParseRequest([]byte(r.GetCsr()))
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w, enrolment, err := d.caller(ctx)
	if err != nil {
		return nil, err
	}
	id, err := w.ID()
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%v", err)
	}
	issued, err := d.signer.Sign(authority.Request{CSR: csr, ID: id, Enrolment: enrolment, Lifetime: d.lifetime})
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "%v", err)
	}
	d.created++
	return &istio.IstioCertificateResponse{CertChain: []string{string(issued.ChainPEM), string(authority.EncodeCertificates(d.roots...))}}, nil
}

// caller returns who gets a certificate, and its enrolment. Each token makes a new enrolment.
func (d *Discovery) caller(ctx context.Context) (w identity.Workload, enrolment string, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if header := md.Get("authorization"); len(header) > 0 {
		d.joined++
		enrolment = fmt.Sprintf("e-%d", d.joined)
		text := strings.TrimPrefix(header[0], "Bearer ")
		if text == WebToken {
			return identity.Workload{TrustDomain: d.Domain, Namespace: "shop", ServiceAccount: "cart"}, enrolment, nil
		}
		w, err = d.redeem(text)
		return w, enrolment, err
	}
	leaf := shown(ctx)
	if leaf == nil {
		return w, "", refusal.New(identityv1.Refusal_REFUSAL_NO_CREDENTIAL, "neither a token nor a certificate was shown")
	}
	if err := d.standing(ctx); err != nil {
		return w, "", err
	}
	id, err := identity.Of(leaf)
	if err != nil {
		return w, "", refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "%v", err)
	}
	w, _ = identity.WorkloadOf(id)
	return w, identity.EnrolmentOf(leaf), nil
}

func (d *Discovery) redeem(text string) (w identity.Workload, err error) {
	token, err := jointoken.Parse(text)
	g := d.tokens[token.Hash()]
	switch {
	case err != nil || g == nil:
		return w, refusal.New(identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "nobody knows this token")
	case g.refusal != 0:
		return w, refusal.New(g.refusal, "the token does not count")
	case g.uses == 0:
		return w, refusal.New(identityv1.Refusal_REFUSAL_TOKEN_USED, "the token was used already")
	}
	g.uses--
	return g.Workload, nil
}

// WatchTrust sends the trust at once and after each change.
func (d *Discovery) WatchTrust(_ *identityv1.WatchTrustRequest, stream identityv1.TrustService_WatchTrustServer) error {
	for {
		d.mu.Lock()
		trust, changed := d.trust(), d.changed
		d.mu.Unlock()
		if err := stream.Send(&identityv1.WatchTrustResponse{Trust: trust}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

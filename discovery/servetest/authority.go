package servetest

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Domain is the trust domain of an Authority.
const Domain = "mesh.example"

// Authority is a mesh's authority, like that of an mcp-server, but without a database. It gives
// servers certificates and authorities over TLS, tells what is trusted, redeems tokens and takes
// records. Tests decide what it knows.
type Authority struct {
	identityv1.UnimplementedAuthorityServiceServer
	identityv1.UnimplementedTrustServiceServer

	Address string
	// Records receives each record that it takes.
	Records chan *identityv1.Issue
	// Lifetime is that of the authorities that it gives.
	Lifetime time.Duration

	t       testing.TB
	mu      sync.Mutex
	root    *authority.Authority
	told    *identityv1.Trust
	changed chan struct{}
	tokens  map[jointoken.Hash]*redeemable
	stop    func()

	recorded map[string]bool
	hold     func(ctx context.Context, method string)
}

type redeemable struct {
	grant *identityv1.Grant // nil for servers
	left  int
	by    map[string]bool
}

// NewAuthority starts an authority on loopback. It ends with the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{
		t: t, Records: make(chan *identityv1.Issue, 100_000), Lifetime: 30 * 24 * time.Hour, changed: make(chan struct{}), tokens: map[jointoken.Hash]*redeemable{},
		recorded: map[string]bool{},
	}
	a.root = newRoot(t)
	a.told = &identityv1.Trust{TrustDomain: Domain, Roots: a.root.RootsPEM()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a.Address = l.Addr().String()
	a.serve(l)
	t.Cleanup(func() { a.stop() })
	return a
}

func newRoot(t testing.TB) *authority.Authority {
	t.Helper()
	root, err := authority.NewRoot(Domain, 24*time.Hour)
	require.NoError(t, err)
	return root
}

// Root is the root that signs.
func (a *Authority) Root() *authority.Authority {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.root
}

func (a *Authority) serve(l net.Listener) {
	server := rpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate() },
	})), grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		answer, err := handle(ctx, request)
		a.mu.Lock()
		hold := a.hold
		a.mu.Unlock()
		if hold != nil {
			hold(ctx, info.FullMethod)
		}
		return answer, err
	}))
	identityv1.RegisterAuthorityServiceServer(server, a)
	identityv1.RegisterTrustServiceServer(server, a)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	a.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // returned if it was stopped before it began
			require.NoError(a.t, err)
		}
	})
}

// Hold sets a function that runs after each call, before its answer.
func (a *Authority) Hold(what func(ctx context.Context, method string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold = what
}

// Stop ends the server. Start begins again at the same address.
func (a *Authority) Stop() { a.stop() }

// Start begins again after Stop.
func (a *Authority) Start() {
	a.t.Helper()
	l, err := net.Listen("tcp", a.Address)
	require.NoError(a.t, err)
	a.serve(l)
}

// certificate is the server's own, with its root.
func (a *Authority) certificate() (*tls.Certificate, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := authority.NewRequest(key)
	if err != nil {
		return nil, err
	}
	request, err := authority.ParseRequest(csr)
	if err != nil {
		return nil, err
	}
	root := a.Root()
	id, err := identity.Server{TrustDomain: Domain, Program: identity.MCPServer, Name: "test"}.ID()
	if err != nil {
		return nil, err
	}
	issued, err := root.Sign(authority.Request{CSR: request, ID: id, Lifetime: time.Hour})
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{issued.Certificate.Raw, root.Certificate().Raw}, PrivateKey: key}, nil
}

// Leaf returns a certificate for a key, signed by the root itself.
func (a *Authority) Leaf(uri string, key crypto.Signer) *tls.Certificate {
	a.t.Helper()
	issued, err := a.Root().Sign(authority.Request{CSR: certtest.RequestFor(a.t, key), ID: spiffeid.RequireFromString(uri), Lifetime: time.Hour})
	require.NoError(a.t, err)
	return &tls.Certificate{Certificate: [][]byte{issued.Certificate.Raw}, PrivateKey: key}
}

// Tell changes what is trusted.
func (a *Authority) Tell(change func(*identityv1.Trust)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := proto.CloneOf(a.told)
	change(next)
	a.told = next
	close(a.changed)
	a.changed = make(chan struct{})
}

// Rotate makes another root sign. Both are trusted.
func (a *Authority) Rotate() {
	root := newRoot(a.t)
	pin := sha256.Sum256(root.Root().RawSubjectPublicKeyInfo)
	a.mu.Lock()
	a.root = root
	a.mu.Unlock()
	a.Tell(func(told *identityv1.Trust) {
		told.Roots, told.ActiveRoot = append(told.GetRoots(), root.RootsPEM()...), pin[:]
	})
}

// Token makes a join token: for a machine, or, without a grant, for a discovery.
func (a *Authority) Token(uses int, grant *identityv1.Grant) string {
	a.t.Helper()
	token, err := jointoken.New(a.Root().Root())
	require.NoError(a.t, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[token.Hash()] = &redeemable{grant: grant, left: uses, by: map[string]bool{}}
	return token.Text()
}

// Enroll gives a discovery its certificate.
func (a *Authority) Enroll(ctx context.Context, r *identityv1.EnrollRequest) (*identityv1.EnrollResponse, error) {
	if r.GetToken() == "" && !shown(ctx) {
		return nil, status.Error(codes.Unauthenticated, "who is it?")
	}
	csr, err := authority.ParseRequest(r.GetCsr())
	if err != nil {
		return nil, err
	}
	id, err := identity.Server{TrustDomain: Domain, Program: identity.Discovery, Name: r.GetName()}.ID()
	if err != nil {
		return nil, err
	}
	issued, err := a.Root().Sign(authority.Request{CSR: csr, ID: id, Hosts: r.GetHosts(), Lifetime: time.Hour})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return &identityv1.EnrollResponse{Chain: issued.ChainPEM, Trust: a.told}, nil
}

func shown(ctx context.Context) bool {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	return ok && len(info.State.PeerCertificates) > 0
}

// Delegate gives a discovery an authority.
func (a *Authority) Delegate(ctx context.Context, r *identityv1.DelegateRequest) (*identityv1.DelegateResponse, error) {
	if !shown(ctx) {
		return nil, status.Error(codes.PermissionDenied, "who is it?")
	}
	csr, err := authority.ParseRequest(r.GetCsr())
	if err != nil {
		return nil, err
	}
	issued, err := a.Root().Delegate(csr, "discovery test", a.Lifetime)
	if err != nil {
		return nil, err
	}
	return &identityv1.DelegateResponse{Chain: issued.ChainPEM}, nil
}

// Redeem uses up a token of a machine.
func (a *Authority) Redeem(_ context.Context, r *identityv1.RedeemRequest) (*identityv1.RedeemResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token := a.tokens[jointoken.Hash(r.GetTokenHash())]
	switch {
	case token == nil || token.grant == nil:
		return nil, refusal.New(identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "nobody knows the join token")
	case token.by[string(r.GetKeyHash())]:
	case token.left == 0:
		return nil, refusal.NewFor(token.grant.GetNamespace(), token.grant.GetServiceAccount(), identityv1.Refusal_REFUSAL_TOKEN_USED, "the join token was used as often as it may be")
	default:
		token.left--
		token.by[string(r.GetKeyHash())] = true
	}
	return &identityv1.RedeemResponse{Grant: token.grant}, nil
}

// Record takes records, each once.
func (a *Authority) Record(_ context.Context, r *identityv1.RecordRequest) (*identityv1.RecordResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range r.GetIssues() {
		if !a.recorded[string(i.GetId())] {
			a.recorded[string(i.GetId())] = true
			a.Records <- i
		}
	}
	return &identityv1.RecordResponse{}, nil
}

// WatchTrust tells what is trusted.
func (a *Authority) WatchTrust(_ *identityv1.WatchTrustRequest, stream identityv1.TrustService_WatchTrustServer) error {
	for {
		a.mu.Lock()
		told, changed := a.told, a.changed
		a.mu.Unlock()
		if err := stream.Send(&identityv1.WatchTrustResponse{Trust: told}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

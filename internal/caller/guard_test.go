package caller_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// whoAmI is a service that hands the test the Caller of each call and stream.
type whoAmI struct {
	healthv1.UnimplementedHealthServer

	streams chan *caller.Caller
}

func (d *whoAmI) Check(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if who := caller.From(ctx); who.Identity() == "spiffe://mesh/denied" {
		return nil, who.RequireUnlimited(caller.Admin)
	}
	d.streams <- caller.From(ctx)
	return &healthv1.HealthCheckResponse{}, nil
}

func (d *whoAmI) Watch(_ *healthv1.HealthCheckRequest, s grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	d.streams <- caller.From(s.Context())
	<-s.Context().Done()
	return nil
}

// fakeTokens is a Tokens that a test fills.
type fakeTokens struct {
	mu     sync.Mutex
	tokens map[caller.TokenHash]caller.Token
	err    error
	used   int
}

func (b *fakeTokens) Find(_ context.Context, hash caller.TokenHash) (caller.Token, error) {
	return b.Held(hash)
}

func (b *fakeTokens) Held(hash caller.TokenHash) (caller.Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tokens[hash]
	if !ok && b.err == nil {
		return t, caller.ErrUnknownToken
	}
	return t, b.err
}

func (b *fakeTokens) Used(caller.TokenHash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used++
}

func (b *fakeTokens) write(secret string, t caller.Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens[caller.HashOf(secret)] = t
}

// guardedServer is a gRPC server behind a Guard.
type guardedServer struct {
	t       *testing.T
	address string
	guard   *caller.Guard
	whoAmI  *whoAmI
	metrics *prometheus.Registry
	log     *bytes.Buffer
}

func serve(t *testing.T, cfg caller.Config, server *tls.Config) *guardedServer {
	t.Helper()
	g := &guardedServer{t: t, whoAmI: &whoAmI{streams: make(chan *caller.Caller, 10)}, metrics: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	cfg.Metrics, cfg.Log = g.metrics, slog.New(slog.NewTextHandler(g.log, nil))
	g.guard = caller.NewGuard(cfg)
	opts := []grpc.ServerOption{grpc.UnaryInterceptor(g.guard.Unary), grpc.StreamInterceptor(g.guard.Stream)}
	if server != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(server)))
	}
	s := rpc.NewServer(opts...)
	healthv1.RegisterHealthServer(s, g.whoAmI)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return g
}

func (g *guardedServer) dial(c credentials.TransportCredentials) healthv1.HealthClient {
	g.t.Helper()
	conn, err := grpc.NewClient(g.address, grpc.WithTransportCredentials(c))
	require.NoError(g.t, err)
	g.t.Cleanup(func() { require.NoError(g.t, conn.Close()) })
	return healthv1.NewHealthClient(conn)
}

func check(ctx context.Context, c healthv1.HealthClient) error {
	_, err := c.Check(ctx, &healthv1.HealthCheckRequest{})
	return err
}

func bearing(t *testing.T, secret string) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret)
}

// tlsServer is a guardedServer with TLS, and the authority that issues its clients' certificates.
type tlsServer struct {
	*guardedServer

	authority *certtest.Authority
}

func serveTLS(t *testing.T, cfg caller.Config) tlsServer {
	t.Helper()
	a := certtest.NewAuthority(t)
	return tlsServer{serve(t, cfg, &tls.Config{
		Certificates: []tls.Certificate{a.Issue(nil).Certificate(t)}, ClientCAs: a.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
	}), a}
}

func (m tlsServer) as(issuer *certtest.Authority, change func(*x509.Certificate), uris ...string) healthv1.HealthClient {
	m.t.Helper()
	return m.dial(credentials.NewTLS(&tls.Config{
		RootCAs: m.authority.Pool(), Certificates: []tls.Certificate{issuer.Issue(change, uris...).Certificate(m.t)},
	}))
}

func (m tlsServer) uncertified() healthv1.HealthClient {
	m.t.Helper()
	return m.dial(credentials.NewTLS(&tls.Config{RootCAs: m.authority.Pool()}))
}

func allow(t *testing.T, rules ...string) func() caller.AllowList {
	t.Helper()
	list, err := caller.ParseRules(rules)
	require.NoError(t, err)
	return func() caller.AllowList { return list }
}

func TestCertificatesIdentifyCallers(t *testing.T) {
	t.Parallel()
	m := serveTLS(t, caller.Config{Allowed: allow(t, "spiffe://mesh/eu/*", "spiffe://mesh/eu/ops=write:shop;read:cart", "spiffe://mesh/denied")})

	require.NoError(t, check(t.Context(), m.as(m.authority, nil, "spiffe://mesh/eu/ops")))
	who := <-m.whoAmI.streams
	require.Equal(t, "spiffe://mesh/eu/ops", who.Identity())
	require.Equal(t, "spiffe://mesh/eu/ops", who.Author())
	require.Equal(t, []string{"read", "write:shop", "read:cart"}, caller.Texts(who.Scopes()))

	for _, c := range []struct {
		uris []string
		code codes.Code
		says string
	}{
		{[]string{"spiffe://mesh/us/ops"}, codes.PermissionDenied, "spiffe://mesh/us/ops may not call here: no --allow names it"},
		{[]string{"spiffe://other/eu/ops"}, codes.PermissionDenied, "spiffe://other/eu/ops may not call here"},
		{nil, codes.Unauthenticated, "has 0 URIs, where the one SPIFFE id has to be"},
		{[]string{"spiffe://mesh/eu/ops", "spiffe://mesh/us/ops"}, codes.Unauthenticated, "has 2 URIs"},
		{[]string{"https://mesh/eu/ops"}, codes.Unauthenticated, "the client certificate does not say who calls"},
		{[]string{"spiffe://mesh/denied"}, codes.PermissionDenied, "spiffe://mesh/denied may not administer who else may call: it has the scopes read"},
	} {
		err := check(t.Context(), m.as(m.authority, nil, c.uris...))
		require.Equal(t, c.code, status.Code(err), "%v: %v", c.uris, err)
		require.ErrorContains(t, err, c.says)
	}
	require.NoError(t, testutil.GatherAndCompare(m.metrics, strings.NewReader(`
# HELP pgmesh_mcp_server_callers_refused_total Calls that were turned away, by what was wrong with who made them: certificate, token, or none of either.
# TYPE pgmesh_mcp_server_callers_refused_total counter
pgmesh_mcp_server_callers_refused_total{reason="certificate"} 5
`), "pgmesh_mcp_server_callers_refused_total"))
}

func TestInvalidCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	m := serveTLS(t, caller.Config{Allowed: allow(t, "spiffe://mesh/*")})
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	for name, c := range map[string]healthv1.HealthClient{
		"another authority": m.as(certtest.NewAuthority(t), nil, "spiffe://mesh/a"),
		"expired":           m.as(m.authority, expired, "spiffe://mesh/a"),
		"not valid yet":     m.as(m.authority, early, "spiffe://mesh/a"),
		"not for clients":   m.as(m.authority, server, "spiffe://mesh/a"),
	} {
		require.Equal(t, codes.Unavailable, status.Code(check(t.Context(), c)), name) // the handshake fails
	}
	require.Empty(t, m.whoAmI.streams)
}

func TestCallersWithoutCredentials(t *testing.T) {
	t.Parallel()
	m := serveTLS(t, caller.Config{Allowed: allow(t, "spiffe://mesh/*=admin")})
	err := check(t.Context(), m.uncertified())
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, "present a client certificate of the server's --client-ca, or a bearer token")

	readers := serveTLS(t, caller.Config{AnonymousReaders: true})
	require.NoError(t, check(t.Context(), readers.uncertified()))
	who := <-readers.whoAmI.streams
	require.Equal(t, caller.Anonymous, who.Identity())
	require.True(t, who.Unlimited(caller.Read))
	require.False(t, who.Unlimited(caller.Write))
}

func TestPlaintextNeedsInsecure(t *testing.T) {
	t.Parallel()
	closed := serve(t, caller.Config{AnonymousReaders: true}, nil)
	require.Equal(t, codes.Unauthenticated, status.Code(check(t.Context(), closed.dial(insecure.NewCredentials()))))
	local := serve(t, caller.Config{Insecure: true}, nil)
	require.NoError(t, check(t.Context(), local.dial(insecure.NewCredentials())))
	who := <-local.whoAmI.streams
	require.True(t, who.Unlimited(caller.Admin))
	require.Empty(t, who.Author())
	// Insecure must not let unauthenticated callers in over TLS.
	both := serveTLS(t, caller.Config{Insecure: true})
	require.Equal(t, codes.Unauthenticated, status.Code(check(t.Context(), both.uncertified())))
}

func TestTokens(t *testing.T) {
	t.Parallel()
	b := &fakeTokens{tokens: map[caller.TokenHash]caller.Token{}}
	m := serveTLS(t, caller.Config{Tokens: b, Allowed: allow(t, "spiffe://mesh/*")})
	good, expired, revoked := caller.NewSecret(), caller.NewSecret(), caller.NewSecret()
	scope, err := caller.ParseScope("write:shop")
	require.NoError(t, err)
	b.write(good, caller.Token{Name: "ci", Scopes: []caller.Scope{scope}, Expires: time.Now().Add(time.Hour)})
	b.write(expired, caller.Token{Name: "old", Scopes: []caller.Scope{scope}, Expires: time.Now().Add(-time.Second)})
	b.write(revoked, caller.Token{Name: "lost", Scopes: []caller.Scope{scope}, Revoked: time.Now()})

	require.NoError(t, check(bearing(t, good), m.uncertified()))
	who := <-m.whoAmI.streams
	require.Equal(t, "token:ci", who.Identity())
	require.Equal(t, "ci", who.Author())
	require.True(t, who.Bearer())
	require.NoError(t, check(bearing(t, good), m.as(m.authority, nil, "spiffe://mesh/a")), "a token counts before a certificate")
	require.Equal(t, "token:ci", (<-m.whoAmI.streams).Identity())
	require.Equal(t, 2, b.used)

	for secret, says := range map[string]string{
		expired:            `the token "old" has expired at`,
		revoked:            `the token "lost" was revoked at`,
		caller.NewSecret(): "the token is not known",
	} {
		err := check(bearing(t, secret), m.uncertified())
		require.Equal(t, codes.Unauthenticated, status.Code(err))
		require.ErrorContains(t, err, says)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic YTpi", good} {
		err := check(metadata.AppendToOutgoingContext(t.Context(), "authorization", header), m.uncertified())
		require.ErrorContains(t, err, "of the form: Bearer TOKEN", header)
	}
	twice := metadata.AppendToOutgoingContext(bearing(t, good), "authorization", "Bearer "+good)
	require.Equal(t, codes.Unauthenticated, status.Code(check(twice, m.uncertified())))

	b.err = errors.New("the database is away")
	err = check(bearing(t, caller.NewSecret()), m.uncertified())
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, 2, b.used)
	for _, secret := range []string{good, expired, revoked} {
		require.NotContains(t, m.log.String(), secret)
		require.NotContains(t, m.log.String(), secret[len("pgmesh_"):])
	}
	require.Contains(t, m.log.String(), "turned a caller away")
}

func TestSecretsAreLongAndUnique(t *testing.T) {
	t.Parallel()
	a, b := caller.NewSecret(), caller.NewSecret()
	require.NotEqual(t, a, b)
	require.Len(t, a, len("pgmesh_")+43) // 256 bits
}

// watch opens a stream and returns once it is let in.
func (g *guardedServer) watch(ctx context.Context, c healthv1.HealthClient) grpc.ServerStreamingClient[healthv1.HealthCheckResponse] {
	g.t.Helper()
	s, err := c.Watch(ctx, &healthv1.HealthCheckRequest{})
	require.NoError(g.t, err)
	<-g.whoAmI.streams
	return s
}

func TestStreamsEndWithTheirPermission(t *testing.T) {
	t.Parallel()
	b := &fakeTokens{tokens: map[caller.TokenHash]caller.Token{}}
	var mu sync.Mutex
	rules := allow(t, "spiffe://mesh/a", "spiffe://mesh/b=read:shop", "spiffe://mesh/c")
	m := serveTLS(t, caller.Config{Tokens: b, Allowed: func() caller.AllowList {
		mu.Lock()
		defer mu.Unlock()
		return rules()
	}})
	secret, lasting := caller.NewSecret(), caller.NewSecret()
	b.write(secret, caller.Token{Name: "ci", Scopes: []caller.Scope{caller.Everything}})
	b.write(lasting, caller.Token{Name: "lasting", Scopes: []caller.Scope{caller.Everything}})
	unlisted := m.watch(t.Context(), m.as(m.authority, nil, "spiffe://mesh/a"))
	widened := m.watch(t.Context(), m.as(m.authority, nil, "spiffe://mesh/b"))
	m.watch(t.Context(), m.as(m.authority, nil, "spiffe://mesh/c"))
	token := m.watch(bearing(t, secret), m.uncertified())
	stays := m.watch(bearing(t, lasting), m.uncertified())

	m.guard.Recheck() // nothing has changed
	mu.Lock()
	rules = allow(t, "spiffe://mesh/b", "spiffe://mesh/c")
	mu.Unlock()
	b.write(secret, caller.Token{Name: "ci", Scopes: []caller.Scope{caller.Everything}, Revoked: time.Now()})
	m.guard.Recheck()

	_, err := unlisted.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), err)
	_, err = widened.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err), err)
	require.ErrorContains(t, err, "what the caller may do has changed: call again")
	_, err = token.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), err)
	require.ErrorContains(t, err, `the token "ci" was revoked at`)
	b.mu.Lock()
	b.err = errors.New("the database is away") // which ends nothing
	b.mu.Unlock()
	m.guard.Recheck()
	require.NoError(t, stays.Context().Err())
	count, err := testutil.GatherAndCount(m.metrics, "pgmesh_mcp_server_streams_ended_total")
	require.NoError(t, err)
	require.Equal(t, 1, count)
}

func TestRunRechecksPeriodically(t *testing.T) {
	t.Parallel()
	b := &fakeTokens{tokens: map[caller.TokenHash]caller.Token{}}
	g := serve(t, caller.Config{Tokens: b}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- g.guard.Run(ctx) }()
	secret := caller.NewSecret()
	b.write(secret, caller.Token{Name: "brief", Expires: time.Now().Add(1500 * time.Millisecond)})
	stream := g.watch(bearing(t, secret), g.dial(insecure.NewCredentials()))
	_, err := stream.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, `the token "brief" has expired`)
	cancel()
	require.ErrorIs(t, <-ran, context.Canceled)
}

func TestHandlersCanEndStreams(t *testing.T) {
	t.Parallel()
	g := serve(t, caller.Config{Insecure: true}, nil)
	stream, err := g.dial(insecure.NewCredentials()).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	require.NoError(t, (<-g.whoAmI.streams).End(status.Error(codes.PermissionDenied, "nothing is left to see")))
	_, err = stream.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "nothing is left to see")
}

func TestHTTPCallersAreAuthenticated(t *testing.T) {
	t.Parallel()
	b := &fakeTokens{tokens: map[caller.TokenHash]caller.Token{}}
	secret := caller.NewSecret()
	b.write(secret, caller.Token{Name: "ci", Scopes: []caller.Scope{caller.Everything}})
	guard := caller.NewGuard(caller.Config{Tokens: b})
	server := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, caller.From(r.Context()).Identity())
	})))
	t.Cleanup(server.Close)
	get := func(header ...string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		req.Header["Authorization"] = header
		answer, err := server.Client().Do(req)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body), answer.Header
	}
	t.Cleanup(server.Client().CloseIdleConnections)

	code, body, _ := get("Bearer " + secret)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "token:ci", body)
	code, body, header := get()
	require.Equal(t, http.StatusUnauthorized, code)
	require.Equal(t, "Bearer", header.Get("WWW-Authenticate"))
	require.Contains(t, body, "nobody vouches for the caller")
	require.Contains(t, body, `"code":`)
	code, body, _ = get("Bearer " + caller.NewSecret())
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "the token is not known")
}

func TestMembersGetTheirScopes(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	m := serveTLS(t, caller.Config{
		Allowed: allow(t, "spiffe://mesh/pgmesh/*=write:shop"),
		Member: func(id spiffeid.ID, chains [][]*x509.Certificate) ([]caller.Scope, error) {
			require.Equal(t, id.String(), chains[0][0].URIs[0].String())
			switch {
			case revoked.Load():
				return nil, status.Error(codes.PermissionDenied, "it was revoked for a reason")
			case id.Path() == "/pgmesh/discovery/eu":
				return []caller.Scope{{Verb: caller.Sign}}, nil
			}
			return nil, nil
		},
		Public: func(method string) bool { return strings.HasSuffix(method, "/Check") },
	})
	member := m.as(m.authority, nil, "spiffe://mesh/pgmesh/discovery/eu")
	require.NoError(t, check(t.Context(), member))
	who := <-m.whoAmI.streams
	require.Equal(t, []string{"sign", "write:shop"}, caller.Texts(who.Scopes()))
	require.True(t, who.Unlimited(caller.Sign))
	require.False(t, who.Unlimited(caller.Read))
	require.NoError(t, check(t.Context(), m.as(m.authority, nil, "spiffe://mesh/pgmesh/discovery/us")))
	require.False(t, (<-m.whoAmI.streams).Unlimited(caller.Sign))

	for _, nobody := range []healthv1.HealthClient{m.uncertified(), m.as(m.authority, nil, "spiffe://mesh/stranger")} {
		require.NoError(t, check(t.Context(), nobody))
		require.Empty(t, (<-m.whoAmI.streams).Scopes(), "a public method gives no scopes")
		stream, err := nobody.Watch(t.Context(), &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Error(t, err)
	}
	require.Equal(t, codes.Unauthenticated, status.Code(check(bearing(t, "pgmesh_x"), m.uncertified())), "a token has to be one")

	stream, err := member.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	<-m.whoAmI.streams
	revoked.Store(true)
	m.guard.Recheck()
	_, err = stream.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "revoked for a reason")
	require.ErrorContains(t, check(t.Context(), member), "revoked for a reason")
}

func TestPublicMethodsNeedTLS(t *testing.T) {
	t.Parallel()
	closed := serve(t, caller.Config{Public: func(string) bool { return true }}, nil)
	require.Equal(t, codes.Unauthenticated, status.Code(check(t.Context(), closed.dial(insecure.NewCredentials()))))
}

package serve_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// mesh is a server that is its own authority, with its database.
type mesh struct {
	*running

	options serve.Options
	store   *store.Store
	log     *journal.Journal
}

func found(t *testing.T, database string, change func(*serve.Options)) *mesh {
	t.Helper()
	m := &mesh{log: &journal.Journal{}}
	m.options = serve.Options{
		Database: database, API: "127.0.0.1:0", Sealing: seal.Options{KeyFile: keyFile(t)}, Name: "main",
		Log: slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&m.options)
	}
	m.running = start(t, m.options)
	var err error
	m.store, err = store.New(database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(m.store.Close)
	return m
}

// token creates a join token for a server.
func (m *mesh) token(program identity.Program, name string) jointoken.Token {
	m.t.Helper()
	keys, err := m.options.Sealing.Load()
	require.NoError(m.t, err)
	require.NoError(m.t, keys.Unlock(m.t.Context(), serve.SealingKeys{Store: m.store}))
	roots, err := authority.Ensure(m.t.Context(), authority.Config{Trust: trust.New(m.store), Members: members.New(m.store), Keys: keys, Files: m.options.Authority, Log: discard})
	require.NoError(m.t, err)
	token, err := authority.TokenForServer(m.t.Context(), members.New(m.store), roots, program, name, time.Hour, "")
	require.NoError(m.t, err)
	return token
}

func (m *mesh) dial(c *tls.Config) *grpc.ClientConn {
	m.t.Helper()
	conn, err := grpc.NewClient(m.MCP.String(), grpc.WithTransportCredentials(credentials.NewTLS(c)))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, conn.Close()) })
	return conn
}

// enroll asks for a certificate with a token.
func (m *mesh) enroll(token jointoken.Token, name string, hosts ...string) membership.Ask {
	m.t.Helper()
	conn := m.dial(membership.ByToken(token, identity.MCPServer))
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		answer, err := identityv1.NewAuthorityServiceClient(conn).Enroll(ctx, &identityv1.EnrollRequest{Csr: csr, Token: token.Text(), Name: name, Hosts: hosts})
		return membership.Granted{Chain: answer.GetChain(), Trust: answer.GetTrust()}, err
	}
}

// join makes a server a member.
func (m *mesh) join(program identity.Program, name string) *membership.Membership {
	m.t.Helper()
	member, err := membership.Join(m.t.Context(), membership.Options{}, m.enroll(m.token(program, name), name))
	require.NoError(m.t, err)
	return member
}

// as returns a connection of a member.
func (m *mesh) as(member *membership.Membership) *grpc.ClientConn {
	m.t.Helper()
	return m.dial(member.Client(membership.IsProgram(identity.MCPServer)))
}

func request(t *testing.T) []byte {
	t.Helper()
	key, err := signing.NewKey()
	require.NoError(t, err)
	csr, err := signing.NewRequest(key)
	require.NoError(t, err)
	return csr
}

// rows returns the rows of a query.
func (m *mesh) rows(sql string) (all []string) {
	m.t.Helper()
	conn, err := pgx.Connect(m.t.Context(), m.options.Database)
	require.NoError(m.t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(m.t.Context(), sql)
	require.NoError(m.t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(m.t, err)
	return all
}

func refused(t *testing.T, want identityv1.Refusal, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), refusal.Of(err).String(), err)
	require.Equal(t, refusal.CodeOf(want), status.Code(err))
}

func TestAServerIsItsOwnAuthorityByDefault(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	member := m.join(identity.Discovery, "eu")
	require.Equal(t, "spiffe://cluster.local/pgmesh/discovery/eu", member.Current().ID.String())
	require.Len(t, member.Current().Trust.Roots, 1)

	conn := m.as(member)
	execute(t, m.options.Database, strings.ReplaceAll(entry, "%NS%", "shop"))
	by := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(member.Client(membership.IsProgram(identity.MCPServer))))}
	require.Equal(t, []string{"x"}, connectWithSecrets(t, m.MCP.String(), nil, by).until(1), "a discovery reads")
	require.Equal(t, codes.PermissionDenied, status.Code(applyOver(t.Context(), conn, "shop")), "and writes nothing")
	require.Equal(t, codes.PermissionDenied, status.Code(applyOver(t.Context(), m.as(m.join(identity.MCPServer, "relay")), "shop")))
	_, err := identityv1.NewAuthorityServiceClient(m.as(m.join(identity.MCPServer, "other"))).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
	require.Equal(t, codes.PermissionDenied, status.Code(err))

	answer, err := identityv1.NewAuthorityServiceClient(conn).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
	require.NoError(t, err)
	chain, err := signing.ParseCertificates(answer.GetChain())
	require.NoError(t, err)
	require.True(t, chain[0].IsCA)
	require.True(t, signing.Delegated(chain[0]))

	require.Equal(t, []string{
		"spiffe://cluster.local/pgmesh/mcp-server/main ", "spiffe://cluster.local/pgmesh/discovery/eu token", "spiffe://cluster.local/pgmesh/mcp-server/relay token",
		"spiffe://cluster.local/pgmesh/mcp-server/other token", "spiffe://cluster.local/pgmesh/discovery/eu certificate",
	}, m.rows(`SELECT identity || ' ' || credential FROM mesh.certificates ORDER BY at`))

	// People come with tokens, as ever, and trust the root.
	pool := x509.NewCertPool()
	pool.AddCert(member.Current().Trust.Roots[0])
	secret, _, err := tokens.Create(t.Context(), callers.New(m.store), "admin", []string{"admin"}, time.Time{}, "")
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+m.API.String()+"/v1/tokens", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	_, metrics := m.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_authority_not_after_seconds{what="own certificate"}`)
	require.Contains(t, metrics, `pgmesh_mcp_server_authority_calls_total{call="enroll",outcome="given"} 3`)
}

func TestTheKeyOfTheAuthorityIsNeverInPlainText(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	m := found(t, pgtest.New(t), func(o *serve.Options) { o.StateDir = state })
	token := m.token(identity.Discovery, "eu")
	_, err := membership.Join(t.Context(), membership.Options{}, m.enroll(token, "eu"))
	require.NoError(t, err)
	_, err = membership.Join(t.Context(), membership.Options{}, m.enroll(token, "eu"))
	require.Error(t, err)
	require.Len(t, m.rows(`SELECT 1::text FROM mesh.authorities`), 1)
	sealed := m.rows(`SELECT sealed_key FROM mesh_internal.authority_keys`)[0]
	require.True(t, seal.IsSealed(sealed))
	keys, err := m.options.Sealing.Load()
	require.NoError(t, err)
	fingerprint := m.rows(`SELECT fingerprint FROM mesh.authorities`)[0]
	key, err := keys.Open(seal.Place{Namespace: ":authority", Name: fingerprint, Value: "key"}, sealed)
	require.NoError(t, err)
	planted := []string{strings.Split(string(key), "\n")[1], token.Text()[len(jointoken.Prefix) : len(jointoken.Prefix)+20]}

	file := filepath.Join(state, authority.File)
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, limit, 10*time.Millisecond)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, seal.IsSealed(string(kept)))
	_, metrics := m.get("/metrics")
	audit := strings.Join(m.rows(`SELECT c::text FROM mesh.certificates c`), "\n")
	for _, secret := range planted {
		require.NotContains(t, m.log.String()+metrics+audit+string(kept)+errorText(err), secret)
	}
}

func errorText(err error) string { return fmt.Sprint(err) }

func TestServersThatStartTogetherHaveOneRoot(t *testing.T) {
	t.Parallel()
	database, key := pgtest.New(t), keyFile(t)
	var all [3]*mesh
	var founding sync.WaitGroup
	for i := range all {
		founding.Go(func() {
			all[i] = found(t, database, func(o *serve.Options) { o.Sealing.KeyFile, o.Name = key, fmt.Sprintf("s%d", i) })
		})
	}
	founding.Wait()
	member := all[0].join(identity.Discovery, "eu")
	for _, m := range all {
		_, err := identityv1.NewAuthorityServiceClient(m.as(member)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
		require.NoError(t, err)
	}
	require.Len(t, all[0].rows(`SELECT 1::text FROM mesh_internal.authority_keys`), 1)
}

func TestInvalidRequestsGetNoCertificate(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), func(o *serve.Options) { o.Hosts = []string{"mcp.example", "localhost"} })
	good := m.token(identity.Discovery, "good")
	conn := m.dial(membership.ByToken(good, identity.MCPServer))
	ask := func(req *identityv1.EnrollRequest) error {
		_, err := identityv1.NewAuthorityServiceClient(conn).Enroll(t.Context(), req)
		return err
	}
	refused(t, identityv1.Refusal_REFUSAL_NO_CREDENTIAL, ask(&identityv1.EnrollRequest{Csr: request(t), Name: "eu"}))
	refused(t, identityv1.Refusal_REFUSAL_REQUEST, ask(&identityv1.EnrollRequest{Csr: []byte("x"), Token: good.Text(), Name: "eu"}))
	refused(t, identityv1.Refusal_REFUSAL_REQUEST, ask(&identityv1.EnrollRequest{Csr: request(t), Token: good.Text(), Name: "e/u"}))
	refused(t, identityv1.Refusal_REFUSAL_REQUEST, ask(&identityv1.EnrollRequest{Csr: request(t), Token: good.Text()}))
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, ask(&identityv1.EnrollRequest{Csr: request(t), Token: "pgmesh_join_x", Name: "eu"}))
	other, err := jointoken.New(m.join(identity.Discovery, "first").Current().Trust.Roots...)
	require.NoError(t, err)
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, ask(&identityv1.EnrollRequest{Csr: request(t), Token: other.Text(), Name: "eu"}))

	csr := request(t)
	require.NoError(t, ask(&identityv1.EnrollRequest{Csr: csr, Token: good.Text(), Name: "eu"}))
	require.NoError(t, ask(&identityv1.EnrollRequest{Csr: csr, Token: good.Text(), Name: "eu"}), "its first answer may have been lost")
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_USED, ask(&identityv1.EnrollRequest{Csr: request(t), Token: good.Text(), Name: "eu"}))
	refused(t, identityv1.Refusal_REFUSAL_REQUEST, ask(&identityv1.EnrollRequest{Csr: csr, Token: good.Text(), Name: "eu", Hosts: []string{"*.example"}}))
	require.NoError(t, ask(&identityv1.EnrollRequest{Csr: csr, Token: good.Text(), Name: "eu", Hosts: []string{"xds.example", "localhost"}}))

	expired, revoked := m.token(identity.Discovery, "expired"), m.token(identity.Discovery, "revoked")
	execute(t, m.options.Database, `UPDATE mesh_internal.join_token_hashes SET expires_at = now() - interval '1 minute' WHERE name = 'expired'`)
	_, err = members.New(m.store).RevokeJoinToken(t.Context(), "revoked", "")
	require.NoError(t, err)
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_EXPIRED, ask(&identityv1.EnrollRequest{Csr: csr, Token: expired.Text(), Name: "eu"}))
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_REVOKED, ask(&identityv1.EnrollRequest{Csr: csr, Token: revoked.Text(), Name: "eu"}))
	require.NoError(t, members.New(m.store).CreateJoinToken(t.Context(), members.JoinToken{
		Name: "machine", Hash: bytes.Repeat([]byte{1}, 32), Namespace: "shop", ServiceAccount: "cart", MaxUses: 1, Expires: time.Now().Add(time.Hour),
	}))
	require.Equal(t, []string{
		"no_credential 1", "request 4", "token_expired 1", "token_revoked 1", "token_unknown 2", "token_used 1",
	}, m.rows(`SELECT refusal || ' ' || sum(times) FROM mesh.certificates WHERE refusal IS NOT NULL GROUP BY refusal ORDER BY refusal`))

	_, err = identityv1.NewAuthorityServiceClient(conn).Redeem(t.Context(), &identityv1.RedeemRequest{TokenHash: bytes.Repeat([]byte{1}, 32), KeyHash: make([]byte, 32)})
	require.Equal(t, codes.Unauthenticated, status.Code(err), "only Enroll is for everybody")
	_, err = adminv1.NewAdminServiceClient(conn).History(t.Context(), &adminv1.HistoryRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}

// Whoever reaches the server can guess tokens without end. The record of that stays small.
func TestGuessesTakeFewRows(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	good := m.token(identity.Discovery, "good")
	conn, csr, roots := m.dial(membership.ByToken(good, identity.MCPServer)), request(t), m.join(identity.Discovery, "first").Current().Trust.Roots
	var guessing errgroup.Group
	for range 20 {
		conn := m.dial(membership.ByToken(good, identity.MCPServer)) // no more than a few kilobytes are read from a stranger
		guessing.Go(func() error {
			for range 50 {
				guess, err := jointoken.New(roots...)
				if err != nil {
					return err
				}
				_, err = identityv1.NewAuthorityServiceClient(conn).Enroll(context.Background(), &identityv1.EnrollRequest{Csr: csr, Token: guess.Text(), Name: "eu"})
				if refusal.Of(err) != identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN {
					return fmt.Errorf("a guess was answered: %w", err)
				}
			}
			return nil
		})
	}
	require.NoError(t, guessing.Wait())
	_, err := identityv1.NewAuthorityServiceClient(conn).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: csr, Token: good.Text(), Name: "eu"})
	require.NoError(t, err)
	_, err = identityv1.NewAuthorityServiceClient(conn).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t), Token: good.Text(), Name: "eu"})
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_USED, err)
	require.Equal(t, []string{"token_unknown 1000", "token_used 1"},
		m.rows(`SELECT refusal || ' ' || sum(times) FROM mesh.certificates WHERE refusal IS NOT NULL GROUP BY refusal ORDER BY refusal`))
	require.LessOrEqual(t, len(m.rows(`SELECT id::text FROM mesh.certificates WHERE refusal = 'token_unknown'`)), 2, "of the hour, and the next if that began")
}

// Whoever has the key of a discovery's authority can make up machines, but no servers.
func TestAStolenDiscoveryIsNoOtherServer(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	member := m.join(identity.Discovery, "eu")
	key, err := signing.NewKey()
	require.NoError(t, err)
	csr, err := signing.NewRequest(key)
	require.NoError(t, err)
	answer, err := identityv1.NewAuthorityServiceClient(m.as(member)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: csr})
	require.NoError(t, err)
	text, err := signing.EncodeKey(key)
	require.NoError(t, err)
	stolen, err := signing.Load(answer.GetChain(), text, member.Current().Trust.Message().GetRoots())
	require.NoError(t, err)
	forge := func(id string) *tls.Config {
		leafKey, err := signing.NewKey()
		require.NoError(t, err)
		csr, err := signing.NewRequest(leafKey)
		require.NoError(t, err)
		parsed, err := signing.ParseRequest(csr)
		require.NoError(t, err)
		issued, err := stolen.Sign(signing.Request{CSR: parsed, ID: spiffeid.RequireFromString(id), Lifetime: time.Hour})
		require.NoError(t, err)
		keyText, err := signing.EncodeKey(leafKey)
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(issued.ChainPEM, keyText)
		require.NoError(t, err)
		c := member.Client(membership.IsProgram(identity.MCPServer))
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		return c
	}
	_, err = identityv1.NewAuthorityServiceClient(m.dial(forge("spiffe://cluster.local/pgmesh/discovery/other"))).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: csr})
	require.Equal(t, codes.Unavailable, status.Code(err), "the handshake fails: %v", err)
	_, err = identityv1.NewAuthorityServiceClient(m.dial(forge("spiffe://cluster.local/ns/shop/sa/cart"))).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: csr})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "a machine has no business here")
	_, err = identityv1.NewAuthorityServiceClient(m.dial(forge("spiffe://cluster.local/ns/shop/sa/cart"))).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t), Name: "x"})
	refused(t, identityv1.Refusal_REFUSAL_CERTIFICATE, err)
}

func TestRevokedServersAreOutWithinASecond(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	eu, us := m.join(identity.Discovery, "eu"), m.join(identity.Discovery, "us")
	watch := func(member *membership.Membership) grpc.ServerStreamingClient[identityv1.WatchTrustResponse] {
		stream, err := identityv1.NewTrustServiceClient(m.as(member)).WatchTrust(t.Context(), &identityv1.WatchTrustRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		return stream
	}
	out, stays := watch(eu), watch(us)
	_, err := trust.New(m.store).RevokeServer(t.Context(), "discovery", "eu", "its disk was stolen", "")
	require.NoError(t, err)
	revoked := time.Now()
	_, err = out.Recv()
	require.Less(t, time.Since(revoked), time.Second)
	refused(t, identityv1.Refusal_REFUSAL_REVOKED, err)
	require.ErrorContains(t, err, "pgmesh/discovery/eu was revoked at")
	require.ErrorContains(t, err, "its disk was stolen")
	told, err := stays.Recv()
	require.NoError(t, err)
	require.Equal(t, "pgmesh/discovery/eu", told.GetTrust().GetRevoked()[0].GetIdentity())
	_, err = identityv1.NewAuthorityServiceClient(m.as(eu)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t)})
	refused(t, identityv1.Refusal_REFUSAL_REVOKED, err)
	_, err = membership.Join(t.Context(), membership.Options{}, m.enroll(m.token(identity.Discovery, "again"), "eu"))
	refused(t, identityv1.Refusal_REFUSAL_REVOKED, err)

	enrolment := identity.EnrolmentOf(us.Current().Certificate.Leaf)
	require.NotEmpty(t, enrolment)
	_, err = trust.New(m.store).RevokeMachine(t.Context(), enrolment, "", "")
	require.NoError(t, err)
	for err == nil {
		_, err = stays.Recv()
	}
	refused(t, identityv1.Refusal_REFUSAL_REVOKED, err)
	_, err = trust.New(m.store).RestoreServer(t.Context(), "discovery", "eu", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := identityv1.NewAuthorityServiceClient(m.as(eu)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t), Name: "eu"})
		return err == nil
	}, limit, 20*time.Millisecond)
	_, err = identityv1.NewAuthorityServiceClient(m.as(eu)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t), Name: "other"})
	refused(t, identityv1.Refusal_REFUSAL_REQUEST, err)
}

// A discovery's calls for a whole region come over one connection, so servers are exempt from the
// limits. Others are not.
func TestServersOfTheMeshCallAsOftenAsTheyLike(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), func(o *serve.Options) { o.Security.Limits = limits.Options{Rate: 0.001, Burst: 3} })
	member := m.join(identity.Discovery, "eu") // one call
	api := identityv1.NewAuthorityServiceClient(m.as(member))
	for range 20 {
		_, err := api.Redeem(t.Context(), &identityv1.RedeemRequest{TokenHash: make([]byte, 32), KeyHash: make([]byte, 32)})
		refused(t, identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, err)
	}
	stranger := identityv1.NewAuthorityServiceClient(m.dial(membership.ByRoots(member.Current().Trust.Roots, identity.MCPServer)))
	enroll := func() error {
		_, err := stranger.Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t), Name: "x"})
		return err
	}
	refused(t, identityv1.Refusal_REFUSAL_NO_CREDENTIAL, enroll())
	refused(t, identityv1.Refusal_REFUSAL_NO_CREDENTIAL, enroll())
	require.Equal(t, codes.ResourceExhausted, status.Code(enroll()))
}

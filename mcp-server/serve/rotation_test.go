package serve_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// follow keeps telling a member what the mesh trusts, and returns what waits until that is so.
func (m *mesh) follow(member *membership.Membership) func(is func(*membership.State) bool) {
	m.t.Helper()
	stream, err := identityv1.NewTrustServiceClient(m.as(member)).WatchTrust(m.t.Context(), &identityv1.WatchTrustRequest{})
	require.NoError(m.t, err)
	go func() {
		for {
			told, err := stream.Recv()
			if err != nil || member.Learn(told.GetTrust()) != nil {
				return
			}
		}
	}()
	return func(is func(*membership.State) bool) {
		m.t.Helper()
		late := time.After(limit)
		for {
			s := member.Current()
			if is(s) {
				return
			}
			select {
			case <-s.Replaced():
			case <-late:
				require.FailNow(m.t, "it was not told")
			}
		}
	}
}

// rotate makes an authority that is to sign next, as the admin API of any server does.
func (m *mesh) rotate() int64 {
	m.t.Helper()
	keys, err := m.options.Sealing.Load()
	require.NoError(m.t, err)
	require.NoError(m.t, keys.Unlock(m.t.Context(), serve.SealingKeys{Store: m.store}))
	a, err := authority.New(authority.Config{Trust: trust.New(m.store), Members: members.New(m.store), Keys: keys, Signs: true, Name: "rotating", Log: discard})
	require.NoError(m.t, err)
	require.NoError(m.t, a.Open(m.t.Context()))
	id, err := a.Rotate(m.t.Context(), "ann")
	require.NoError(m.t, err)
	return id
}

func TestTheRootIsChangedUnderItsMembers(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	member := m.join(identity.Discovery, "eu")
	until := m.follow(member)
	first := member.Current().Trust.Roots[0]
	id := m.rotate()
	until(func(s *membership.State) bool { return len(s.Trust.Roots) == 2 })
	require.True(t, member.Current().Trust.Roots[0].Equal(first), "the one that signs comes first")
	second := member.Current().Trust.Roots[1]
	require.ErrorContains(t, trust.New(m.store).ActivateAuthority(t.Context(), id, false, ""), "not every member of the mesh may have heard")

	shown := func() *x509.Certificate {
		c := member.Client(func(membership.Peer) error { return nil })
		conn, err := tls.Dial("tcp", m.MCP.String(), c)
		require.NoError(t, err)
		defer conn.Close()
		chain := conn.ConnectionState().PeerCertificates
		return chain[len(chain)-1]
	}
	require.True(t, shown().Equal(first))
	require.NoError(t, trust.New(m.store).ActivateAuthority(t.Context(), id, true, ""))
	pin := sha256.Sum256(second.RawSubjectPublicKeyInfo)
	until(func(s *membership.State) bool { return bytes.Equal(s.Trust.Message().GetActiveRoot(), pin[:]) })
	require.True(t, shown().Equal(second), "the server is the first to have a certificate of it")

	renew := func(ctx context.Context, csr []byte) (membership.Granted, error) {
		answer, err := identityv1.NewAuthorityServiceClient(m.as(member)).Enroll(ctx, &identityv1.EnrollRequest{Csr: csr})
		return membership.Granted{Chain: answer.GetChain(), Trust: answer.GetTrust()}, err
	}
	renewed, err := membership.Join(t.Context(), membership.Options{}, renew)
	require.NoError(t, err)
	require.Equal(t, member.Current().ID, renewed.Current().ID)
	require.Equal(t, identity.EnrolmentOf(member.Current().Certificate.Leaf), identity.EnrolmentOf(renewed.Current().Certificate.Leaf))
	require.ErrorContains(t, trust.New(m.store).RetireAuthority(t.Context(), 1, false, ""), "a certificate that authority 1 signed", "somebody still has one")
	require.NoError(t, trust.New(m.store).RetireAuthority(t.Context(), 1, true, ""))
	_, err = identityv1.NewTrustServiceClient(m.as(renewed)).WatchTrust(t.Context(), &identityv1.WatchTrustRequest{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := identityv1.NewAuthorityServiceClient(m.as(member)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t)})
		return err != nil
	}, limit, 20*time.Millisecond, "who has the old one is out")
	_, err = identityv1.NewAuthorityServiceClient(m.as(renewed)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
	require.NoError(t, err)
}

func TestTheTrustDomainIsThatOfTheMeshConfig(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	write := func(domain string, aliases string) {
		execute(t, database, `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'mesh', '{"trustDomain": "`+domain+`", "trustDomainAliases": [`+aliases+`]}')
			ON CONFLICT (api_group, kind, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`)
	}
	write("old.example", "")
	m := found(t, database, nil)
	member := m.join(identity.Discovery, "eu")
	require.Equal(t, "spiffe://old.example/pgmesh/discovery/eu", member.Current().ID.String())
	until := m.follow(member)
	write("new.example", `"old.example"`)
	until(func(s *membership.State) bool { return s.Trust.Domain == "new.example" })
	answer, err := identityv1.NewAuthorityServiceClient(m.as(member)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t)})
	require.NoError(t, err)
	chain, err := signing.ParseCertificates(answer.GetChain())
	require.NoError(t, err)
	require.Equal(t, "spiffe://new.example/pgmesh/discovery/eu", chain[0].URIs[0].String())
	require.Equal(t, "spiffe://new.example/pgmesh/discovery/us", m.join(identity.Discovery, "us").Current().ID.String())
}

// A server that starts without its database goes by what it has kept, however the keys come.
func TestTheAuthorityWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	for name, sealing := range map[string]seal.Options{
		"a key": {KeyFile: keyFile(t)}, "a passphrase": {PassphraseFile: passphraseFile(t)}, "a KMS": {Command: kms(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			postgres, state := pgtest.Server(t), t.TempDir()
			change := func(o *serve.Options) { o.Sealing, o.StateDir = sealing, state }
			m := found(t, postgres.URL, change)
			member := m.join(identity.Discovery, "eu")
			out := m.join(identity.Discovery, "out")
			_, err := trust.New(m.store).RevokeServer(t.Context(), "discovery", "out", "", "")
			require.NoError(t, err)
			execute(t, postgres.URL, strings.ReplaceAll(entry, "%NS%", "shop"))
			by := []grpc.DialOption{m.credentials(member)}
			connectBy(t, m.MCP.String(), nil, by).until(1)
			m.until(func(trust *identityv1.Trust) bool { return len(trust.GetRevoked()) == 1 }, member)
			m.end()
			m.store.Close()
			postgres.Stop()

			m = found(t, postgres.URL, change)
			require.Equal(t, []string{"x"}, namesOf(connectBy(t, m.MCP.String(), nil, []grpc.DialOption{m.credentials(member)}).next()))
			m.until(func(trust *identityv1.Trust) bool { return len(trust.GetRevoked()) == 1 }, member)
			_, err = identityv1.NewAuthorityServiceClient(m.as(member)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t)})
			require.Equal(t, codes.Unavailable, status.Code(err), err)
			_, err = identityv1.NewAuthorityServiceClient(m.as(out)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
			refused(t, identityv1.Refusal_REFUSAL_REVOKED, err)
			postgres.Start()
			require.Eventually(t, func() bool {
				_, err := identityv1.NewAuthorityServiceClient(m.as(member)).Enroll(t.Context(), &identityv1.EnrollRequest{Csr: request(t)})
				return err == nil
			}, limit, 20*time.Millisecond)
		})
	}
}

func (m *mesh) credentials(member *membership.Membership) grpc.DialOption {
	return grpc.WithTransportCredentials(credentials.NewTLS(member.Client(membership.IsProgram(identity.MCPServer))))
}

// until waits until the server trusts what it should.
func (m *mesh) until(is func(*identityv1.Trust) bool, member *membership.Membership) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	stream, err := identityv1.NewTrustServiceClient(m.as(member)).WatchTrust(ctx, &identityv1.WatchTrustRequest{})
	require.NoError(m.t, err)
	for {
		told, err := stream.Recv()
		require.NoError(m.t, err)
		if is(told.GetTrust()) {
			return
		}
	}
}

func TestAServerThatCannotOpenItsAuthoritySaysSo(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	m.join(identity.Discovery, "eu") // there is an authority
	m.end()
	o := m.options
	o.Sealing.KeyFile = keyFile(t)
	o.Listen, o.HTTP.Address, o.API = "127.0.0.1:0", "127.0.0.1:0", ""
	err := serve.Run(t.Context(), o, nil)
	require.ErrorContains(t, err, "the key of authority 1: it is sealed with the key")
	o.Sealing = seal.Options{}
	require.ErrorContains(t, serve.Run(t.Context(), o, nil), "(umask 077; mcp-server secrets key > secrets.key)")
}

// company is an authority of a company: a root, and authorities beneath it in files.
type company struct {
	t     *testing.T
	root  *x509.Certificate
	key   crypto.Signer
	files authority.Files
}

func newCompany(t *testing.T) *company {
	t.Helper()
	key, err := signing.NewKey()
	require.NoError(t, err)
	dir := t.TempDir()
	c := &company{t: t, key: key, files: authority.Files{Cert: filepath.Join(dir, "mesh.pem"), Key: filepath.Join(dir, "mesh.key"), Roots: filepath.Join(dir, "roots.pem")}}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root of a company"}, IsCA: true, BasicConstraintsValid: true, MaxPathLen: -1,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	c.root = c.sign(template, template, key.Public())
	certtest.WriteFile(t, c.files.Roots, signing.EncodeCertificates(c.root))
	return c
}

func (c *company) sign(template, parent *x509.Certificate, key any) *x509.Certificate {
	c.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, c.key)
	require.NoError(c.t, err)
	made, err := x509.ParseCertificate(der)
	require.NoError(c.t, err)
	return made
}

// issue puts an authority of a name into the files, which may have as many beneath it as the path
// length says.
func (c *company) issue(name string, pathLength int) {
	c.t.Helper()
	key, err := signing.NewKey()
	require.NoError(c.t, err)
	made := c.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		MaxPathLen: pathLength, MaxPathLenZero: pathLength == 0, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, c.root, key.Public())
	text, err := signing.EncodeKey(key)
	require.NoError(c.t, err)
	certtest.WriteFile(c.t, c.files.Cert, signing.EncodeCertificates(made))
	certtest.WriteFile(c.t, c.files.Key, text)
}

func TestAnAuthorityOfFiles(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	c.issue("mesh", 0)
	o := serve.Options{Database: "postgres://127.0.0.1:1/x", Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}, Authority: c.files, Log: discard}
	require.ErrorContains(t, serve.Run(t.Context(), o, nil), "path length")
	c.issue("mesh", 1)
	o.Plaintext.Allowed = true
	require.ErrorContains(t, serve.Run(t.Context(), o, nil), "leave out --insecure and --tls-cert")

	m := found(t, pgtest.New(t), func(o *serve.Options) { o.Sealing, o.Authority = seal.Options{}, c.files })
	member := m.join(identity.Discovery, "eu")
	require.Len(t, member.Current().Certificate.Certificate, 2, "with the authority between it and the root")
	require.True(t, member.Current().Trust.Roots[0].Equal(c.root))
	delegate := func(member *membership.Membership) error {
		_, err := identityv1.NewAuthorityServiceClient(m.as(member)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
		return err
	}
	require.NoError(t, delegate(member))
	require.Empty(t, m.rows(`SELECT 1::text FROM mesh_internal.authority_keys`), "the database has none")

	c.issue("mesh", 1) // again, with another key and the same name
	require.Eventually(t, func() bool { return strings.Contains(m.log.String(), "took over new files") }, limit, 10*time.Millisecond)
	require.NoError(t, delegate(member), "who has one of the old is known on")
	require.NoError(t, delegate(m.join(identity.Discovery, "us")))

	// Another authority of the company has no say in this mesh.
	before, err := signing.ParseCertificates(member.Current().ChainPEM())
	require.NoError(t, err)
	c.issue("payroll", 1)
	require.Eventually(t, func() bool { return strings.Count(m.log.String(), "took over new files") == 2 }, limit, 10*time.Millisecond)
	require.Equal(t, "mesh", before[1].Subject.CommonName)
	require.Eventually(t, func() bool { return delegate(member) != nil }, limit, 10*time.Millisecond, "the mesh's authority is another now")
}

// What a server must stand: 500 machines that join a second, and all that is recorded of them,
// beside everything else.
func TestManyMachinesJoinAtOnce(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	conn := m.as(m.join(identity.Discovery, "eu"))
	const machines = 1000
	hash := sha256.Sum256([]byte("a token of many"))
	require.NoError(t, members.New(m.store).CreateJoinToken(t.Context(), members.JoinToken{
		Name: "many", Hash: hash[:], Namespace: "shop", ServiceAccount: "cart", MaxUses: machines, Expires: time.Now().Add(time.Hour),
	}))
	api := identityv1.NewAuthorityServiceClient(conn)
	redeem := func(i int) (*identityv1.Grant, error) {
		key := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
		answer, err := api.Redeem(t.Context(), &identityv1.RedeemRequest{TokenHash: hash[:], KeyHash: key[:], Peer: "10.0.0.1:1"})
		return answer.GetGrant(), err
	}
	began := time.Now()
	var joining sync.WaitGroup
	grants, errs := make([]*identityv1.Grant, machines), make([]error, machines)
	for i := range machines {
		joining.Go(func() { grants[i], errs[i] = redeem(i) })
	}
	joining.Wait()
	took := time.Since(began)
	enrolments := map[string]bool{}
	for i, grant := range grants {
		require.NoError(t, errs[i])
		require.Equal(t, "shop", grant.GetNamespace())
		require.Equal(t, "cart", grant.GetServiceAccount())
		enrolments[grant.GetEnrolment()] = true
	}
	require.Len(t, enrolments, machines)
	t.Logf("%d machines joined in %s: %.0f a second", machines, took, machines/took.Seconds())
	again, err := redeem(7)
	require.NoError(t, err)
	require.Equal(t, grants[7].GetEnrolment(), again.GetEnrolment(), "its first answer was lost")
	_, err = redeem(machines)
	refused(t, identityv1.Refusal_REFUSAL_TOKEN_USED, err)
	namespace, account := refusal.Whom(err)
	require.Equal(t, []string{"shop", "cart"}, []string{namespace, account}, "so that its owner hears of it")
	_, err = api.Redeem(t.Context(), &identityv1.RedeemRequest{TokenHash: []byte("x")})
	refused(t, identityv1.Refusal_REFUSAL_REQUEST, err)

	var issues []*identityv1.Issue
	for i := range machines {
		issues = append(issues, &identityv1.Issue{
			Id: fmt.Appendf(nil, "%016d", i), At: timestamppb.Now(), Identity: "spiffe://cluster.local/ns/shop/sa/cart", Enrolment: grants[i].GetEnrolment(),
			Serial: fmt.Sprint(i), NotAfter: timestamppb.New(time.Now().Add(time.Hour)), By: "token", Peer: "10.0.0.1:1",
		})
	}
	began = time.Now()
	for range 2 { // its answer was lost
		_, err = api.Record(t.Context(), &identityv1.RecordRequest{Issues: issues})
		require.NoError(t, err)
	}
	t.Logf("%d rows twice in %s", machines, time.Since(began))
	require.Equal(t, []string{fmt.Sprint(machines)}, m.rows(`SELECT count(*)::text FROM mesh.certificates WHERE server = 'spiffe://cluster.local/pgmesh/discovery/eu'`))
	for _, wrong := range []*identityv1.Issue{{}, {Id: make([]byte, 16)}, {Id: make([]byte, 16), At: timestamppb.Now()}, {Id: make([]byte, 16), At: &timestamppb.Timestamp{Nanos: -1}}} {
		_, err = api.Record(t.Context(), &identityv1.RecordRequest{Issues: []*identityv1.Issue{wrong}})
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
}

func TestTheKeyThatSealsTheAuthorityIsChanged(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	member := m.join(identity.Discovery, "eu")
	m.end()
	old, fresh := m.options.Sealing.KeyFile, keyFile(t)
	both := filepath.Join(t.TempDir(), "both")
	var lines []byte
	for _, path := range []string{fresh, old} {
		line, err := os.ReadFile(path)
		require.NoError(t, err)
		lines = append(lines, line...)
	}
	certtest.WriteFile(t, both, lines)
	keys, err := seal.Load(both)
	require.NoError(t, err)
	for done := range 2 {
		sealed, all, err := authority.Reseal(t.Context(), trust.New(m.store), keys)
		require.NoError(t, err)
		require.Equal(t, 1-done, sealed)
		require.Equal(t, 1, all)
	}
	again := found(t, m.options.Database, func(o *serve.Options) { o.Sealing.KeyFile = fresh })
	_, err = identityv1.NewAuthorityServiceClient(again.as(member)).Delegate(t.Context(), &identityv1.DelegateRequest{Csr: request(t)})
	require.NoError(t, err)
}

package issue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/identity/issue"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 20 * time.Second

// fixture is a discovery that can sign.
type fixture struct {
	*servetest.Authority

	t   *testing.T
	at  serve.Addresses
	log *journal.Journal

	options serve.Options
	end     func()
}

func start(t *testing.T, allowed []string, change ...func(*serve.Options)) *fixture {
	t.Helper()
	f := &fixture{Authority: servetest.NewAuthority(t), t: t, log: &journal.Journal{}}
	o := servetest.Member(t, f.Authority, t.TempDir())
	o.Keys.Allowed = allowed
	o.Log = slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, c := range change {
		c(&o)
	}
	f.options = o
	f.at, f.end = servetest.Run(t, o)
	f.waits("discovery has an authority of its own")
	return f
}

// waits waits until the log has a text.
func (f *fixture) waits(text string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return strings.Contains(f.log.String(), text) }, limit, 5*time.Millisecond, text)
}

func (f *fixture) machine() *servetest.Machine {
	f.t.Helper()
	return servetest.NewMachine(f.t, f.at.XDS.String(), f.Root().Root())
}

// tell changes what is trusted. It waits until discovery tells machines another name of the mesh,
// which is part of the change.
func (f *fixture) tell(change func(*identityv1.Trust)) {
	f.t.Helper()
	m := f.machine()
	require.NoError(f.t, m.Join(f.t.Context(), f.Token(1, &identityv1.Grant{Namespace: "test", ServiceAccount: "witness", Enrolment: "witness"})))
	watch, err := identityv1.NewTrustServiceClient(m.Dial()).WatchTrust(f.t.Context(), &identityv1.WatchTrustRequest{})
	require.NoError(f.t, err)
	_, err = watch.Recv()
	require.NoError(f.t, err)
	f.Tell(func(told *identityv1.Trust) {
		change(told)
		told.Aliases = append(told.Aliases, fmt.Sprintf("alias-%d.example", len(told.Aliases)))
	})
	_, err = watch.Recv()
	require.NoError(f.t, err)
}

// refuses checks how a machine is refused, and that nobody is told what it has shown.
func (f *fixture) refuses(name string, m *servetest.Machine, bearer string, reason identityv1.Refusal, says string) {
	f.t.Helper()
	err := m.Join(f.t.Context(), bearer)
	f.refused(name, err, reason, says)
	require.NotContains(f.t, err.Error(), secretOf(bearer), name)
	require.NotContains(f.t, f.log.String(), secretOf(bearer), name)
	for {
		select {
		case record := <-f.Records:
			if record.GetRefusal() != reason || !strings.Contains(record.GetDetail(), says) {
				continue // an earlier refusal
			}
			require.NotContains(f.t, record.String(), secretOf(bearer), name)
			if reason == identityv1.Refusal_REFUSAL_TOKEN_USED {
				require.Contains(f.t, record.GetIdentity(), "/ns/shop/sa/cart", "those hear of it whose token it was")
			}
			return
		case <-time.After(limit):
			require.FailNow(f.t, "it is not recorded", name)
		}
	}
}

// secretOf is the part of a credential that nobody may repeat.
func secretOf(bearer string) string {
	if len(bearer) < 40 {
		return "\x00 nothing"
	}
	return bearer[len(bearer)-20:]
}

func (f *fixture) refused(name string, err error, reason identityv1.Refusal, says string) {
	f.t.Helper()
	require.Error(f.t, err, name)
	s := status.Convert(err)
	require.Contains(f.t, s.Message(), says, name)
	if reason != identityv1.Refusal_REFUSAL_REVOKED { // which says of whom and why, too
		require.Len(f.t, s.Details(), 1, name)
	}
	info, ok := s.Details()[0].(*errdetails.ErrorInfo)
	require.True(f.t, ok, name)
	require.Equal(f.t, "identity.pgmesh.io", info.GetDomain(), name)
	require.Empty(f.t, info.GetMetadata(), "who comes with a token that does not count is not told whose it was")
	require.Equal(f.t, reason.String(), info.GetReason(), name)
}

func TestAJoinTokenWorksAsOftenAsItAllows(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	token := f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})
	m := f.machine()
	require.NoError(t, m.Join(t.Context(), token))
	require.NoError(t, m.Join(t.Context(), token), "the same key is the same machine, whose answer got lost")
	f.refuses("replayed", f.machine(), token, identityv1.Refusal_REFUSAL_TOKEN_USED, "the join token was used as often as it may be")
	unknown, err := jointoken.New(f.Root().Root())
	require.NoError(t, err)
	f.refuses("made up", f.machine(), unknown.Text(), identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "nobody knows the join token")
	f.refuses("half a token", f.machine(), token[:60], identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "this is not a whole join token")
	f.refuses("a token for servers", f.machine(), f.Token(1, nil), identityv1.Refusal_REFUSAL_TOKEN_UNKNOWN, "nobody knows")
	f.refuses("nothing", f.machine(), "", identityv1.Refusal_REFUSAL_NO_CREDENTIAL, "neither a token nor a certificate was shown: join with a token")
	f.waits("reason=token_used")
}

func TestRequestsThatCannotBeGranted(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	grant := &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"}
	for csr, says := range map[string]string{
		"":                         "it is not PKCS #10 in PEM form",
		strings.Repeat("x", 1<<17): "bytes, of which",
	} {
		m := f.machine()
		token := f.Token(1, grant)
		f.refused("broken", m.Ask(t.Context(), token, &istio.IstioCertificateRequest{Csr: csr}), identityv1.Refusal_REFUSAL_REQUEST, says)
		require.NoError(t, m.Join(t.Context(), token), "the token was not used up")
	}
	f.refuses("a name that is none", f.machine(), f.Token(1, &identityv1.Grant{Namespace: "a b", ServiceAccount: "c"}), identityv1.Refusal_REFUSAL_REQUEST,
		"no certificate can be given for the namespace")
}

func TestCertificatesLiveAsLongAsIsAskedForAndAllowed(t *testing.T) {
	t.Parallel()
	f := start(t, nil, func(o *serve.Options) { o.Identity.Lifetime = time.Hour })
	for seconds, lives := range map[int64]time.Duration{0: time.Hour, -5: time.Hour, 600: 10 * time.Minute, 86_400: time.Hour, 1 << 62: time.Hour} {
		m := f.machine()
		csr, err := authority.NewRequest(m.Key)
		require.NoError(t, err)
		token := f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})
		require.NoError(t, m.Ask(t.Context(), token, &istio.IstioCertificateRequest{Csr: string(csr), ValidityDuration: seconds}))
		require.WithinDuration(t, time.Now().Add(lives), m.Certificate.Leaf.NotAfter, 10*time.Second, "%d", seconds)
	}
}

func TestTheMeshSaysHowLongCertificatesLive(t *testing.T) {
	t.Parallel()
	f := start(t, nil, func(o *serve.Options) { o.Identity.Lifetime = time.Hour })
	lives := func(namespace string, asked int64) time.Duration {
		m := f.machine()
		csr, err := authority.NewRequest(m.Key)
		require.NoError(t, err)
		token := f.Token(1, &identityv1.Grant{Namespace: namespace, ServiceAccount: "cart", Enrolment: "m1"})
		require.NoError(t, m.Ask(t.Context(), token, &istio.IstioCertificateRequest{Csr: string(csr), ValidityDuration: asked}))
		return time.Until(m.Certificate.Leaf.NotAfter).Round(30 * time.Second)
	}
	f.tell(func(told *identityv1.Trust) {
		told.CertificateLifetimes = map[string]int64{"": 1800, "shop": 300, "lax": 86_400}
	})
	require.Equal(t, 5*time.Minute, lives("shop", 0))
	require.Equal(t, 2*time.Minute, lives("shop", 120))
	require.Equal(t, 5*time.Minute, lives("shop", 86_400))
	require.Equal(t, 30*time.Minute, lives("other", 0))
	require.Equal(t, time.Hour, lives("lax", 0), "a discovery gives no more than it is told to")
	f.tell(func(told *identityv1.Trust) { told.CertificateLifetimes = nil })
	require.Equal(t, time.Hour, lives("shop", 0))
}

func TestOnlyACertificateThatCountsIsRenewed(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	brief := f.machine()
	csr, err := authority.NewRequest(brief.Key)
	require.NoError(t, err)
	require.NoError(t, brief.Ask(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"}),
		&istio.IstioCertificateRequest{Csr: string(csr), ValidityDuration: 1}))
	require.Eventually(t, func() bool { return time.Now().After(brief.Certificate.Leaf.NotAfter) }, limit, 10*time.Millisecond)
	f.refuses("expired", brief, "", identityv1.Refusal_REFUSAL_CERTIFICATE, "and cannot be renewed any more: join again with a new token (mesh-agent join)")

	foreign := servetest.NewAuthority(t)
	stranger := f.machine()
	stranger.Certificate = foreign.Leaf("spiffe://mesh.example/ns/shop/sa/cart", stranger.Key)
	f.refuses("a foreign root", stranger, "", identityv1.Refusal_REFUSAL_CERTIFICATE, "was signed by no authority that the mesh trusts")
	server := f.machine()
	server.Certificate = f.Leaf("spiffe://mesh.example/pgmesh/discovery/x", server.Key)
	f.refuses("a server", server, "", identityv1.Refusal_REFUSAL_CERTIFICATE, "is a server of pgmesh, and no machine")
}

// Guessing costs those who guess, and nobody who has a certificate.
func TestStrangersAreHeldToALimit(t *testing.T) {
	t.Parallel()
	f := start(t, nil, func(o *serve.Options) { o.Identity.Strangers = limits.StrangerOptions{Rate: 0.001, Burst: 3} })
	m := f.machine()
	require.NoError(t, m.Join(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})))
	for range 2 {
		require.Equal(t, codes.Unauthenticated, status.Code(f.machine().Join(t.Context(), "")))
	}
	err := f.machine().Join(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart"}))
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "too many from 127.0.0.1 ask for certificates without having one")
	for range 10 {
		require.NoError(t, m.Join(t.Context(), ""))
	}
}

// What a stranger sends is bounded, because gRPC assembles whole messages before a handler sees
// them.
func TestAStrangerMayNotSendMuch(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	large := &istio.IstioCertificateRequest{Csr: strings.Repeat("x", 8<<20)}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
	_, err := istio.NewIstioCertificateServiceClient(f.machine().Dial()).CreateCertificate(ctx, large)
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	large.Csr = strings.Repeat("x", 3<<20)
	_, err = istio.NewIstioCertificateServiceClient(f.machine().Dial()).CreateCertificate(ctx, large)
	require.Equal(t, codes.Unavailable, status.Code(err), "the connection is cut: %v", err)
	m := f.machine()
	require.NoError(t, m.Join(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})))
	f.refused("a member", m.Ask(t.Context(), "", large), identityv1.Refusal_REFUSAL_REQUEST, "bytes, of which")
}

// Records wait while mcp-server is away.
func TestRecordsWaitForTheServer(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	m := f.machine()
	require.NoError(t, m.Join(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})))
	<-f.Records
	f.Stop()
	const renewals = 20
	serials := map[string]bool{}
	for range renewals {
		require.NoError(t, m.Join(t.Context(), ""))
		serials[fmt.Sprintf("%x", m.Certificate.Leaf.SerialNumber)] = true
	}
	f.waits("records of certificates wait for mcp-server")
	f.Start()
	for range renewals {
		record := <-f.Records
		require.True(t, serials[record.GetSerial()], record.GetSerial())
		delete(serials, record.GetSerial())
	}
	require.Empty(t, f.Records)
}

// What mcp-server has not taken yet is there when discovery starts again, even if the last record
// was torn.
func TestRecordsOutliveDiscovery(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	m := f.machine()
	require.NoError(t, m.Join(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})))
	<-f.Records
	f.Stop()
	serials := map[string]bool{}
	for range 3 {
		require.NoError(t, m.Join(t.Context(), ""))
		serials[fmt.Sprintf("%x", m.Certificate.Leaf.SerialNumber)] = true
	}
	f.end()
	f.waits("are kept for the next start")
	kept := filepath.Join(f.options.Identity.StateDir, "records.jsonl")
	torn, err := os.OpenFile(kept, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = torn.WriteString(`{"id": "AAAA`)
	require.NoError(t, errors.Join(err, torn.Close()))

	f.at, f.end = servetest.Run(t, f.options)
	again := f.machine()
	again.Certificate = m.Certificate
	require.NoError(t, again.Join(t.Context(), ""))
	serials[fmt.Sprintf("%x", again.Certificate.Leaf.SerialNumber)] = true
	f.Start()
	for range 4 {
		record := <-f.Records
		require.True(t, serials[record.GetSerial()], record.GetSerial())
		delete(serials, record.GetSerial())
	}
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(kept)
		return err == nil && len(content) == 0
	}, limit, 5*time.Millisecond, "they are taken, and kept no more")
	f.end()
	require.Empty(t, f.Records)
}

// When discovery's certificate is replaced, its connections to mcp-server end, with the calls on
// them. The calls are repeated, and neither the machine nor the log shows anything.
func TestACertificateIsReplacedUnderCalls(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	grant := &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"}
	held := map[string]bool{identityv1.AuthorityService_Redeem_FullMethodName: true, identityv1.AuthorityService_Record_FullMethodName: true}
	var mu sync.Mutex
	cut := make(chan string, len(held))
	f.Hold(func(ctx context.Context, method string) {
		mu.Lock()
		first := held[method]
		delete(held, method)
		mu.Unlock()
		if first {
			f.Rotate()
			<-ctx.Done()
			cut <- method
		}
	})
	require.NoError(t, f.machine().Join(t.Context(), f.Token(1, grant)), "the token was used, and counts for the same machine")
	require.Equal(t, identityv1.AuthorityService_Redeem_FullMethodName, <-cut)
	require.Equal(t, identityv1.AuthorityService_Record_FullMethodName, <-cut)
	require.Equal(t, "m1", (<-f.Records).GetEnrolment())
	require.NoError(t, f.machine().Join(t.Context(), f.Token(1, grant)))
	<-f.Records
	require.Empty(t, f.Records, "it is kept once")
	for _, line := range []string{"records of certificates", "mcp-server does not tell what the mesh trusts", "gives discovery no new authority", "refused a certificate"} {
		require.NotContains(t, f.log.String(), line)
	}
}

func TestAMachineIsToldForWhichGroupItsTokenWas(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	m := f.machine()
	csr, err := authority.NewRequest(m.Key)
	require.NoError(t, err)
	ask := func(bearer string) []string {
		var header metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+bearer)
		conn := m.Dial()
		defer conn.Close()
		_, err := istio.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, &istio.IstioCertificateRequest{Csr: string(csr)}, grpc.Header(&header))
		require.NoError(t, err)
		return header.Get(issue.GroupHeader)
	}
	require.Equal(t, []string{"api"}, ask(f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1", WorkloadGroup: "api"})))
	require.Empty(t, ask(f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m2"})))
}

// A machine may renew as often as an honest one ever would: each renewal is signed, and recorded
// for months.
func TestRenewalsAreHeldToALimit(t *testing.T) {
	t.Parallel()
	f := start(t, nil, func(o *serve.Options) { o.Identity.Renewals = limits.RenewalOptions{Rate: 0.001, Burst: 3} })
	greedy, other := f.machine(), f.machine()
	for i, m := range []*servetest.Machine{greedy, other} {
		require.NoError(t, m.Join(t.Context(), f.Token(1, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: fmt.Sprint("m", i)})))
	}
	for range 3 {
		require.NoError(t, greedy.Join(t.Context(), ""))
	}
	err := greedy.Join(t.Context(), "")
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "renews its certificate too often")
	require.NoError(t, other.Join(t.Context(), ""))
}

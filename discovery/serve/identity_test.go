package serve_test

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

var cart = &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"}

const limit = 20 * time.Second

// joins waits until a discovery can sign, and lets a machine join.
func joins(t *testing.T, a *servetest.Authority, at serve.Addresses, grant *identityv1.Grant) *servetest.Machine {
	t.Helper()
	m := servetest.NewMachine(t, at.XDS.String(), a.Root().Root())
	token := a.Token(1, grant)
	require.Eventually(t, func() bool {
		err := m.Join(t.Context(), token)
		if status.Code(err) != codes.Unavailable {
			require.NoError(t, err)
		}
		return err == nil
	}, limit, 10*time.Millisecond, "discovery has no authority at first")
	return m
}

// connect opens an xDS stream.
func connect(t *testing.T, m *servetest.Machine) discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient {
	t.Helper()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(m.Dial()).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	_ = s.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "sidecar~10.0.0.1~cart-1~mesh.internal"}, TypeUrl: push.ClusterType})
	return s
}

func page(t *testing.T, at serve.Addresses, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP.String()+path, http.NoBody)
	require.NoError(t, err)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestAMachineJoinsRenewsAndIsServed(t *testing.T) {
	t.Parallel()
	a := servetest.NewAuthority(t)
	at, stop := servetest.Run(t, servetest.Member(t, a, t.TempDir()))
	m := joins(t, a, at, cart)
	first := m.Certificate.Leaf
	require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", first.URIs[0].String())
	require.Equal(t, "m1", identity.EnrolmentOf(first))
	require.WithinDuration(t, time.Now().Add(24*time.Hour), first.NotAfter, time.Hour, "no longer than the root, which ends in a day")
	require.Len(t, m.Chain, 3, "the leaf, discovery's authority, the root")
	require.Equal(t, a.Root().RootsPEM(), []byte(m.Chain[2]))
	verified(t, m)

	var err error
	m.Key, err = authority.NewKey()
	require.NoError(t, err)
	require.NoError(t, m.Join(t.Context(), ""))
	require.Equal(t, first.URIs[0].String(), m.Certificate.Leaf.URIs[0].String())
	require.Equal(t, "m1", identity.EnrolmentOf(m.Certificate.Leaf))
	require.NotEqual(t, first.SerialNumber, m.Certificate.Leaf.SerialNumber)
	verified(t, m)

	watch, err := identityv1.NewTrustServiceClient(m.Dial()).WatchTrust(t.Context(), &identityv1.WatchTrustRequest{})
	require.NoError(t, err)
	told, err := watch.Recv()
	require.NoError(t, err)
	require.True(t, proto.Equal(&identityv1.Trust{TrustDomain: servetest.Domain, Roots: a.Root().RootsPEM()}, told.GetTrust()))

	stop()
	by := map[string]*identityv1.Issue{}
	for len(a.Records) > 0 {
		r := <-a.Records
		if r.GetRefusal() == identityv1.Refusal_REFUSAL_UNSPECIFIED {
			by[r.GetBy()] = r
		}
	}
	require.Len(t, by, 2, "what was given is recorded")
	require.Equal(t, "m1", by["token"].GetEnrolment())
	require.Equal(t, first.URIs[0].String(), by["certificate"].GetIdentity())
	require.Len(t, by["certificate"].GetAuthority(), 64)
	require.Len(t, by["certificate"].GetKeyHash(), 32)
}

// verified verifies a certificate as others do.
func verified(t *testing.T, m *servetest.Machine) {
	t.Helper()
	between := x509.NewCertPool()
	for _, der := range m.Certificate.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		between.AddCert(c)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		_, err := m.Certificate.Leaf.Verify(x509.VerifyOptions{Roots: authority.Pool(m.Roots...), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		require.NoError(t, err)
	}
}

// What a discovery has is enough for its machines while mcp-server is away, even for a discovery
// that starts then.
func TestMachinesAreServedWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	a, folder := servetest.NewAuthority(t), t.TempDir()
	o := servetest.Member(t, a, folder)
	at, stop := servetest.Run(t, o)
	m := joins(t, a, at, cart)
	a.Stop()
	require.NoError(t, m.Join(t.Context(), ""), "who is a member")
	newcomer := servetest.NewMachine(t, at.XDS.String(), a.Root().Root())
	err := newcomer.Join(t.Context(), a.Token(1, cart))
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "join tokens cannot be checked now, try again: mcp-server")
	stop()

	require.NoError(t, os.Remove(o.Identity.JoinTokenFile))
	at, stop = servetest.Run(t, o)
	again := servetest.NewMachine(t, at.XDS.String(), a.Root().Root())
	again.Certificate, again.Key = m.Certificate, m.Key
	require.NoError(t, again.Join(t.Context(), ""))
	s := connect(t, again)
	a.Start()
	joins(t, a, at, cart)
	require.NoError(t, s.Context().Err())
	stop()
	for _, name := range []string{"authority.pem"} {
		found, err := os.Stat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), found.Mode().Perm())
	}
}

func TestARevokedMachineIsOutAtOnce(t *testing.T) {
	t.Parallel()
	a := servetest.NewAuthority(t)
	at, _ := servetest.Run(t, servetest.Member(t, a, t.TempDir()))
	m := joins(t, a, at, cart)
	other := joins(t, a, at, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m2"})
	stream, stays := connect(t, m), connect(t, other)
	a.Tell(func(told *identityv1.Trust) {
		told.Revoked = []*identityv1.Revocation{{Enrolment: "m1", Reason: "lost"}}
	})
	begun := time.Now()
	_, err := stream.Recv()
	require.Less(t, time.Since(begun), time.Second)
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "the machine m1 was revoked (lost)")
	require.Equal(t, "lost", refusal.RevocationOf(err).GetReason(), "for the agent, which tells its machine")
	err = m.Join(t.Context(), "")
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "the machine m1 was revoked (lost)")
	require.Equal(t, "m1", refusal.RevocationOf(err).GetEnrolment())
	require.NoError(t, stays.Context().Err())
	require.NoError(t, other.Join(t.Context(), ""))
	require.Contains(t, page(t, at, "/metrics"), `pgmesh_discovery_proxies_refused_total{reason="revoked"} 1`)
	require.Contains(t, page(t, at, "/metrics"), `pgmesh_discovery_certificates_refused_total{reason="revoked"} 1`)
}

func TestAuthoritiesFollowTheRoot(t *testing.T) {
	t.Parallel()
	a, out := servetest.NewAuthority(t), &journal.Journal{}
	o := servetest.Member(t, a, t.TempDir())
	o.Log = slog.New(slog.NewTextHandler(out, nil))
	at, _ := servetest.Run(t, o)
	m := joins(t, a, at, cart)
	old := a.Root()
	a.Rotate()
	require.Eventually(t, func() bool {
		require.NoError(t, m.Join(t.Context(), ""), "there always is one that signs")
		return m.Certificate.Leaf.CheckSignatureFrom(parse(t, m.Chain[1])) == nil && parse(t, m.Chain[1]).CheckSignatureFrom(a.Root().Root()) == nil
	}, limit, 10*time.Millisecond)
	require.Len(t, m.Roots, 2, "both are trusted")
	verified(t, m)
	require.Equal(t, 2, strings.Count(out.String(), "discovery has an authority of its own"))

	roots := a.Root().RootsPEM()
	a.Tell(func(told *identityv1.Trust) { told.Roots = roots })
	behind := servetest.NewMachine(t, at.XDS.String(), old.Root(), a.Root().Root())
	behind.Certificate, behind.Key = m.Certificate, m.Key
	require.Eventually(t, func() bool {
		return behind.Join(t.Context(), "") == nil && len(behind.Roots) == 1
	}, 2*limit, 100*time.Millisecond, "discovery's own certificate follows within half a minute")
}

func parse(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	all, err := authority.ParseCertificates([]byte(text))
	require.NoError(t, err)
	return all[0]
}

func TestADiscoveryWithoutAnAuthoritySaysSo(t *testing.T) {
	t.Parallel()
	a, out := servetest.NewAuthority(t), &journal.Journal{}
	a.Lifetime = 0 // of no use
	o := servetest.Member(t, a, t.TempDir())
	o.Log = slog.New(slog.NewTextHandler(out, nil))
	at, _ := servetest.Run(t, o)
	m := servetest.NewMachine(t, at.XDS.String(), a.Root().Root())
	err := m.Join(t.Context(), a.Token(1, cart))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "discovery cannot sign certificates now, try again later or at another discovery: it has no authority to sign with")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "discovery cannot give machines certificates now") }, limit, 10*time.Millisecond)
	require.Contains(t, page(t, at, "/metrics"), "pgmesh_discovery_can_sign 0")
}

func TestADiscoveryWaitsForTheServerToJoin(t *testing.T) {
	t.Parallel()
	a, out := servetest.NewAuthority(t), &journal.Journal{}
	a.Stop()
	o := servetest.Member(t, a, t.TempDir())
	o.Log, o.Listen, o.HTTP.Address = slog.New(slog.NewTextHandler(out, nil)), "127.0.0.1:0", "127.0.0.1:0"
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() { ended <- serve.Run(ctx, o, func(at serve.Addresses) { started <- at }) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "discovery waits for mcp-server") }, limit, 10*time.Millisecond)
	a.Start()
	<-started
	require.Contains(t, out.String(), "joined the mesh")
	cancel()
	require.NoError(t, <-ended)
}

func TestMissingFlagsAreNamed(t *testing.T) {
	t.Parallel()
	a := servetest.NewAuthority(t)
	for says, change := range map[string]func(*serve.Options){
		"discovery has no certificate to serve with: give --join-token-file": func(o *serve.Options) { o.Identity = serve.Identity{} },
		"--state-dir: name a folder":                                         func(o *serve.Options) { o.Identity.StateDir = "" },
		"does not exist; give a token with --join-token-file":                func(o *serve.Options) { o.Identity.JoinTokenFile = "" },
		"this is not a whole join token": func(o *serve.Options) {
			require.NoError(t, os.WriteFile(o.Identity.JoinTokenFile, []byte("secret"), 0o600))
		},
		"exclude each other":                       func(o *serve.Options) { o.Plaintext.Allowed = true },
		"--ca-cert and --ca-key belong together":   func(o *serve.Options) { o.Identity.Authority.Cert = "x" },
		"--tls-cert without --client-ca":           func(o *serve.Options) { o.Identity.JoinTokenFile, o.Identity.Server.Cert = "", "x" },
		"without an mcp-server (--mcp) nobody":     func(o *serve.Options) { o.Sources = serve.Sources{Directory: t.TempDir()} },
		"--join-token-file and --tls-cert exclude": func(o *serve.Options) { o.Identity.Server.Cert = "x" },
	} {
		o := servetest.Member(t, a, t.TempDir())
		o.Log = slog.New(slog.DiscardHandler)
		change(&o)
		err := serve.Run(t.Context(), o, nil)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret")
	}
}

// The metrics of a discovery with members are explained in the docs, old names of theirs, too.
func TestEveryMetricOfMembersIsDocumented(t *testing.T) {
	t.Parallel()
	a := servetest.NewAuthority(t)
	at, _ := servetest.Run(t, servetest.Member(t, a, t.TempDir()))
	joins(t, a, at, cart)
	docs, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(page(t, at, "/metrics"), -1)
	require.NotEmpty(t, found)
	for _, metric := range found {
		if strings.HasPrefix(metric[1], "go_") || strings.HasPrefix(metric[1], "process_") {
			continue // of every program in Go
		}
		require.Regexp(t, "`"+metric[1]+"[`{]", string(docs))
	}
}

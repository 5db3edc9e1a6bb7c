package admit_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/identity/admit"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/kinds"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const domain = "mesh.example"

// entrance is an xDS server behind a door.
type entrance struct {
	t         *testing.T
	authority *certtest.Authority
	told      *identityv1.Trust
	trusted   atomic.Pointer[trust.State]
	door      *admit.Door
	address   string
	log       *journal.Journal
	metrics   *prometheus.Registry
}

func open(t *testing.T) *entrance {
	t.Helper()
	e := &entrance{t: t, authority: certtest.NewAuthority(t), log: &journal.Journal{}, metrics: prometheus.NewRegistry()}
	e.told = &identityv1.Trust{TrustDomain: domain, Aliases: []string{"old.example"}, Roots: e.authority.PEM}
	e.trust(func(*identityv1.Trust) {})
	log := slog.New(slog.NewTextHandler(e.log, nil))
	engine := push.New(log, e.metrics)
	e.door = admit.NewDoor(e.trusted.Load, engine.Refuse, log, e.metrics)
	engine.AdmitBy(e.door.Node)
	config := configstore.New()
	documents, err := kinds.Parse("mesh.yaml", []byte(resources))
	require.NoError(t, err)
	var changes []kinds.Change
	for _, d := range documents {
		changes = append(changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	step := config.Apply(kinds.Batch{Revision: 1, Changes: changes})
	engine.Update(mesh.Build(step, nil), step)
	streams := push.NewServer(engine, ads.Limits{}, nil, log)
	own := e.authority.Issue(nil).Certificate(t)
	server := rpc.NewServer(grpc.ChainStreamInterceptor(e.door.Stream), grpc.Creds(e.door.Credentials(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert,
	})))
	streams.Register(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		streams.Shutdown()
		server.Stop()
		require.NoError(t, <-served)
	})
	return e
}

// resources are two services that only their own namespaces see.
const resources = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec: {hosts: [cart.shop], exportTo: [.], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vault, namespace: bank}
spec: {hosts: [vault.bank], exportTo: [.], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
`

// trust changes what the mesh trusts.
func (e *entrance) trust(change func(*identityv1.Trust)) {
	e.t.Helper()
	change(e.told)
	state, err := trust.Read(e.told)
	require.NoError(e.t, err)
	e.trusted.Store(state)
	if e.door != nil {
		e.door.Recheck()
	}
}

const cart = "spiffe://mesh.example/ns/shop/sa/cart"

// machine returns a certificate for the machine m1.
func (e *entrance) machine(id string) *tls.Certificate {
	c := e.authority.Issue(func(c *x509.Certificate) { c.Subject.SerialNumber = "m1" }, id).Certificate(e.t)
	return &c
}

type stream = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// connect opens a stream with a certificate, which may be nil, and asks for clusters with a node.
func (e *entrance) connect(c *tls.Certificate, node *corev3.Node) stream {
	e.t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.authority.Pool()}
	if c != nil {
		config.Certificates = []tls.Certificate{*c}
	}
	conn, err := grpc.NewClient(e.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, conn.Close()) })
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(e.t.Context())
	require.NoError(e.t, err)
	_ = s.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: push.ClusterType}) // a stream that was refused already says so in Recv
	return s
}

func node(id string, metadata map[string]any) *corev3.Node {
	m, err := structpb.NewStruct(metadata)
	if err != nil {
		panic(err)
	}
	return &corev3.Node{Id: id, Metadata: m}
}

// clusters are the names in the first response of a stream.
func clusters(t *testing.T, s stream) string {
	t.Helper()
	response, err := s.Recv()
	require.NoError(t, err)
	var names []string
	for _, r := range response.GetResources() {
		var c clusterv3.Cluster
		require.NoError(t, r.UnmarshalTo(&c))
		if strings.HasSuffix(c.GetName(), "cart.shop") || strings.HasSuffix(c.GetName(), "vault.bank") {
			names = append(names, c.GetName())
		}
	}
	return strings.Join(names, " ")
}

const cartID = "sidecar~10.0.0.1~cart-1.shop~shop.svc.cluster.local"

func TestAProxyIsWhoItsCertificateSays(t *testing.T) {
	t.Parallel()
	e := open(t)
	for name, n := range map[string]*corev3.Node{
		"it says the same":             node(cartID, map[string]any{"NAMESPACE": "shop", "SERVICE_ACCOUNT": "cart"}),
		"it says nothing":              node("sidecar~10.0.0.1~cart-1~mesh.internal", nil),
		"it says nothing more":         node(cartID, map[string]any{"SERVICE_ACCOUNT": ""}),
		"its names end like another's": node("sidecar~10.0.0.1~vault-1.bank~bank.svc.cluster.local", map[string]any{"NAMESPACE": "shop"}),
	} {
		require.Equal(t, "outbound|80||cart.shop", clusters(t, e.connect(e.machine(cart), n)), name)
	}
	old := e.machine("spiffe://old.example/ns/shop/sa/cart")
	require.Equal(t, "outbound|80||cart.shop", clusters(t, e.connect(old, node(cartID, nil))), "by an alias of the trust domain")
}

func TestAProxyWithAFalseClaimIsRefused(t *testing.T) {
	t.Parallel()
	e := open(t)
	foreign := certtest.NewAuthority(t)
	e.trust(func(told *identityv1.Trust) {
		told.Federated = []*identityv1.Federated{{TrustDomain: "partner.example", Roots: foreign.PEM}}
		told.Revoked = []*identityv1.Revocation{{Identity: "ns/shop/sa/thief", Reason: "the key was copied"}, {Enrolment: "m2"}}
	})
	certificate := func(a *certtest.Authority, change func(*x509.Certificate), uris ...string) *tls.Certificate {
		c := a.Issue(change, uris...).Certificate(t)
		return &c
	}
	plain := node(cartID, nil)
	for name, c := range map[string]struct {
		certificate *tls.Certificate
		node        *corev3.Node
		code        codes.Code
		reason      string
		says        string
	}{
		"the namespace of another": {
			e.machine(cart), node(cartID, map[string]any{"NAMESPACE": "bank"}), codes.PermissionDenied, "namespace",
			`the certificate proves ` + cart + `, which has the namespace "shop", and the node claims "bank"`,
		},
		"the namespace of another in its domain": {
			e.machine(cart), node("sidecar~10.0.0.1~vault-1.bank~bank.svc.cluster.local", nil), codes.PermissionDenied, "namespace", `the node claims "bank"`,
		},
		"a namespace that is no text": {
			e.machine(cart), node(cartID, map[string]any{"NAMESPACE": []any{"shop"}}), codes.PermissionDenied, "namespace", "the node claims",
		},
		"the account of another": {
			e.machine(cart), node(cartID, map[string]any{"SERVICE_ACCOUNT": "till"}), codes.PermissionDenied, "service_account",
			`which has the service account "cart", and the node claims "till"`,
		},
		"no certificate": {nil, plain, codes.Unauthenticated, "no_certificate", "no certificate was shown: members of the mesh have one"},
		"an authority that nobody knows": {
			certificate(foreign, nil, cart), plain, codes.PermissionDenied, "certificate", "was signed by no authority that the mesh trusts",
		},
		"another mesh": {
			certificate(foreign, nil, "spiffe://partner.example/ns/shop/sa/cart"), plain, codes.PermissionDenied, "certificate",
			"is of another mesh, whose members are none of this one",
		},
		"a certificate that has expired": {
			certificate(e.authority, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, cart), plain, codes.PermissionDenied,
			"certificate", "has expired at",
		},
		"a certificate for two": {
			certificate(e.authority, nil, cart, "spiffe://mesh.example/ns/bank/sa/vault"), plain, codes.PermissionDenied, "certificate", "the certificate has 2 URIs",
		},
		"a server": {
			certificate(e.authority, nil, "spiffe://mesh.example/pgmesh/discovery/eu"), plain, codes.PermissionDenied, "certificate", "is a server of pgmesh, and no machine",
		},
		"something else": {
			certificate(e.authority, nil, "spiffe://mesh.example/ops/root"), plain, codes.PermissionDenied, "certificate", "names neither a machine nor a server",
		},
		"a certificate for servers": {
			certificate(e.authority, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, cart), plain,
			codes.PermissionDenied, "certificate", "does not count: the certificate of " + cart + ": x509: certificate specifies an incompatible key usage",
		},
		"a revoked identity": {
			e.machine("spiffe://mesh.example/ns/shop/sa/thief"), plain, codes.PermissionDenied, "revoked", "the identity ns/shop/sa/thief was revoked (the key was copied)",
		},
		"a revoked machine": {
			certificate(e.authority, func(c *x509.Certificate) { c.Subject.SerialNumber = "m2" }, cart), plain, codes.PermissionDenied, "revoked", "the machine m2 was revoked",
		},
		"a node that cannot be read": {e.machine(cart), node("cart", nil), codes.InvalidArgument, "node", "want four parts"},
	} {
		before := e.refused(c.reason)
		_, err := e.connect(c.certificate, c.node).Recv()
		require.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.says, name)
		require.InDelta(t, before+1, e.refused(c.reason), 0, name)
		require.Contains(t, e.log.String(), "reason="+c.reason, name)
	}
}

// refused is how many were refused for a reason.
func (e *entrance) refused(reason string) (count float64) {
	e.t.Helper()
	families, err := e.metrics.Gather()
	require.NoError(e.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "pgmesh_discovery_proxies_refused_total" && m.GetLabel()[0].GetValue() == reason {
				count = m.GetCounter().GetValue()
			}
		}
	}
	return count
}

// However often a client tries, its refusals are logged at a limited rate.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	e := open(t)
	const tries = 100
	for range tries {
		_, err := e.connect(nil, node(cartID, nil)).Recv()
		require.Error(t, err)
	}
	require.Less(t, strings.Count(e.log.String(), "refused a proxy"), tries)
	require.InDelta(t, tries, e.refused("no_certificate"), 0)
	require.NoError(t, testutil.GatherAndCompare(e.metrics, strings.NewReader(`
# HELP pgmesh_discovery_proxies Proxies that are connected.
# TYPE pgmesh_discovery_proxies gauge
pgmesh_discovery_proxies 0
`), "pgmesh_discovery_proxies"))
}

func TestAStreamEndsWhenItsClientIsNoLongerTrusted(t *testing.T) {
	t.Parallel()
	e := open(t)
	connected := func(c *tls.Certificate) stream {
		s := e.connect(c, node(cartID, nil))
		require.Equal(t, "outbound|80||cart.shop", clusters(t, s))
		return s
	}
	ends := func(s stream, code codes.Code, says string) {
		t.Helper()
		begun := time.Now()
		_, err := s.Recv()
		require.Equal(t, code, status.Code(err), "%v", err)
		require.ErrorContains(t, err, says)
		require.Less(t, time.Since(begun), time.Second)
	}
	other := e.authority.Issue(func(c *x509.Certificate) { c.Subject.SerialNumber = "m2" }, cart).Certificate(t)
	first, second := connected(e.machine(cart)), connected(&other)

	e.trust(func(told *identityv1.Trust) { told.Revoked = []*identityv1.Revocation{{Enrolment: "m1"}} })
	ends(first, codes.PermissionDenied, "the machine m1 was revoked")
	require.NoError(t, second.Context().Err(), "another machine of that name stays")

	e.trust(func(told *identityv1.Trust) { told.Revoked = []*identityv1.Revocation{{Identity: "ns/shop/sa/cart"}} })
	ends(second, codes.PermissionDenied, "the identity ns/shop/sa/cart was revoked")

	e.trust(func(told *identityv1.Trust) { told.Revoked = nil })
	again := connected(e.machine(cart))
	e.trust(func(told *identityv1.Trust) { told.Roots = certtest.NewAuthority(t).PEM })
	ends(again, codes.PermissionDenied, "was signed by no authority that the mesh trusts")
}

// Every proxy outlives a certificate once a day. It is told to reconnect, on a connection that
// shows the next certificate, and is not refused.
func TestAStreamEndsWithItsCertificate(t *testing.T) {
	t.Parallel()
	e := open(t)
	brief := e.authority.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(3 * time.Second) }, cart).Certificate(t)
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(&brief)
	conn, err := grpc.NewClient(e.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: e.authority.Pool(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown.Load(), nil },
	})))
	require.NoError(t, err)
	defer conn.Close()
	connect := func() stream {
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context(), grpc.WaitForReady(true))
		require.NoError(t, err)
		_ = s.Send(&discoveryv3.DiscoveryRequest{Node: node(cartID, nil), TypeUrl: push.ClusterType})
		return s
	}
	s := connect()
	require.Equal(t, "outbound|80||cart.shop", clusters(t, s))
	shown.Store(e.machine(cart))
	_, err = s.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "has expired: open another with the one after it")
	require.False(t, time.Now().Before(brief.Leaf.NotAfter))

	require.Eventually(t, func() bool { _, err := connect().Recv(); return err == nil }, 20*time.Second, 5*time.Millisecond)
	require.Contains(t, e.log.String(), "level=INFO msg=\"a stream has ended with its certificate, to be opened with the next\" identity="+cart)
	require.NotContains(t, e.log.String(), "refused a proxy")
	require.NoError(t, testutil.GatherAndCompare(e.metrics, strings.NewReader(`
# HELP pgmesh_discovery_streams_renewed_total Streams that ended with the certificate that they were opened with, for their clients to come back with the next.
# TYPE pgmesh_discovery_streams_renewed_total counter
pgmesh_discovery_streams_renewed_total 1
`), "pgmesh_discovery_streams_renewed_total", "pgmesh_discovery_proxies_refused_total"))
}

func TestNobodyIsAdmittedBeforeTheTrustIsKnown(t *testing.T) {
	t.Parallel()
	e := open(t)
	e.trusted.Store(nil)
	_, err := e.connect(e.machine(cart), node(cartID, nil)).Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "waits for mcp-server")
	_, err = e.door.Node(context.Background(), node(cartID, nil))
	require.ErrorContains(t, err, "waits for mcp-server")
}

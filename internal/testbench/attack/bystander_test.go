package attack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// bystander is the namespace shop, which nobody may disturb: a service, a machine that calls it,
// and an operator who changes rules and revokes machines.
type bystander struct {
	*mesh

	port   string
	token  string // a file
	agent  *stack.Program
	edits  int
	asking *http.Client
}

// newBystander starts the service and the machine of shop.
func newBystander(m *mesh) *bystander {
	m.t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "shop") }))
	m.t.Cleanup(app.Close)
	b := &bystander{mesh: m, port: fmt.Sprint(envoytest.Port(m.t)), token: m.token("shop", "write:shop"), asking: &http.Client{}}
	m.t.Cleanup(b.asking.CloseIdleConnections)
	_, port, err := net.SplitHostPort(app.Listener.Addr().String())
	require.NoError(m.t, err)
	b.apply(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: app, namespace: shop}
spec:
  hosts: [app.shop.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %s, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, ports: {http: %s}}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: client, namespace: shop}
spec:
  workloadSelector: {labels: {app: client}}
  egress: [{port: {number: %[1]s, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: ['*/*']}]
`, b.port, port))
	b.agent = m.member("shop/client", "client", "--labels", "app=client")
	b.answers("app.shop.mesh", "shop")
	return b
}

// apply changes resources of shop, over the API, with a token for shop alone.
func (b *bystander) apply(yaml string) {
	b.t.Helper()
	out, err := b.clientOf(b.token, yaml, "apply", "-f", "-")
	require.NoError(b.t, err, out)
}

// ask sends a request to a host through the Envoy of shop's machine.
func (b *bystander) ask(ctx context.Context, host string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", b.port)+"/", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	req.Host = host
	resp, err := b.asking.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// answers waits until a host answers with a text.
func (b *bystander) answers(host, text string) {
	b.t.Helper()
	poll.Eventually(b.t, func(ctx context.Context) error {
		status, body, err := b.ask(ctx, host)
		if err == nil && !strings.Contains(body, text) {
			err = fmt.Errorf("%s answers %d %q, want %q", host, status, body, text)
		}
		return err
	})
}

// request measures the time of a request.
func (b *bystander) request() time.Duration {
	b.t.Helper()
	start := time.Now()
	status, body, err := b.ask(b.t.Context(), "app.shop.mesh")
	require.NoError(b.t, err)
	require.Equal(b.t, "shop", body, "the answer had status %d", status)
	return time.Since(start)
}

// change measures the time from a change of a rule until requests follow it.
func (b *bystander) change() time.Duration {
	b.t.Helper()
	b.edits++
	text := fmt.Sprintf("edit %d", b.edits)
	start := time.Now()
	b.apply(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: app, namespace: shop}
spec:
  hosts: [app.shop.mesh]
  http:
  - {match: [{uri: {exact: /}}], route: [{destination: {host: app.shop.mesh}}], headers: {response: {set: {edit: %s}}}}
`, text))
	poll.Eventually(b.t, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", b.port)+"/", http.NoBody)
		if err != nil {
			return err
		}
		req.Host = "app.shop.mesh"
		resp, err := b.asking.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("edit"); got != text {
			return fmt.Errorf("the rule in force is %q, want %q", got, text)
		}
		return nil
	})
	return time.Since(start)
}

// revocation measures the time from the revocation of a machine until discovery no longer talks to
// it.
func (b *bystander) revocation(machine *thief) time.Duration {
	b.t.Helper()
	start := time.Now()
	b.client("identity", "revoke", machine.identity, "--reason", "stolen")
	_, err := machine.stream.Recv()
	for err == nil { // responses that were on their way
		_, err = machine.stream.Recv()
	}
	return time.Since(start)
}

// thief has the stolen certificate of a machine, and talks to discovery with it.
type thief struct {
	identity string
	conn     *grpc.ClientConn
	stream   discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

// newThief steals a certificate of an identity, namespace/service-account, and opens an xDS stream
// with it.
func newThief(m *mesh, identity string) *thief {
	m.t.Helper()
	th := &thief{identity: identity, conn: dial(m, m.join(identity))}
	namespace, account, _ := strings.Cut(identity, "/")
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(th.conn).DeltaAggregatedResources(m.t.Context())
	require.NoError(m.t, err)
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": namespace, "SERVICE_ACCOUNT": account})
	require.NoError(m.t, err)
	require.NoError(m.t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:    &corev3.Node{Id: "sidecar~127.0.0.9~" + account + "." + namespace + "~" + namespace + ".svc.cluster.local", Metadata: metadata},
		TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	}))
	_, err = stream.Recv()
	require.NoError(m.t, err)
	th.stream = stream
	return th
}

// dial connects to discovery with the certificate of an identity.
func dial(m *mesh, identity string) *grpc.ClientConn {
	m.t.Helper()
	conn, err := grpc.NewClient(m.XDS, grpc.WithTransportCredentials(credentials.NewTLS(withCertificate(m.t, identity))))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// withCertificate is the TLS configuration of whoever has a certificate and its key. An attacker
// does not verify the server.
func withCertificate(t testing.TB, identity string) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(identity)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(text, text)
	require.NoError(t, err)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, RootCAs: x509.NewCertPool()}
}

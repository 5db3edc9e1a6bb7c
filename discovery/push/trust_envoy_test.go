package push_test

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
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// twoPorts has a workload take requests at one port, and connections at another.
const twoPorts = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: web, namespace: shop}
spec:
  egress: [{hosts: [./nothing.shop]}] # another Envoy of the machine has the ports of services
  ingress:
  - {port: {number: %[1]d, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: %[3]q}
  - {port: {number: %[2]d, name: tcp, protocol: TCP}, bind: 127.0.0.1, defaultEndpoint: %[3]q}
`

// guardedPorts has it take mutual TLS alone.
const guardedPorts = twoPorts + `---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec:
  trustDomain: mesh.example
  trustDomainAliases: [old.example]
  accessLogFile: %[4]q
  accessLogFormat: "%%RESPONSE_CODE%% %%RESPONSE_CODE_DETAILS%% %%CONNECTION_TERMINATION_DETAILS%% %%UPSTREAM_TRANSPORT_FAILURE_REASON%% %%DOWNSTREAM_TRANSPORT_FAILURE_REASON%%\n"
`

// doorway is a real Envoy before an application, with a certificate in files.
type doorway struct {
	t         *testing.T
	authority *certtest.Authority
	http, tcp uint32
	log       string
	envoy     *envoytest.Envoy
}

func newDoorway(t *testing.T, b *bench) *doorway {
	t.Helper()
	folder := t.TempDir()
	d := &doorway{t: t, authority: certtest.NewAuthority(t), http: envoytest.Port(t), tcp: envoytest.Port(t), log: filepath.Join(folder, "log")}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(app.Close)
	b.apply(t, fmt.Sprintf(guardedPorts, d.http, d.tcp, app.Listener.Addr().String(), d.log))
	cert, key := d.authority.Issue(nil, "spiffe://mesh.example/ns/shop/sa/web").Write(t, folder)
	roots := filepath.Join(folder, "roots.pem")
	certtest.WriteFile(t, roots, d.authority.PEM)
	metadata, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "shop", "INTERCEPTION_MODE": "NONE", "TLS_SERVER_CERT_CHAIN": cert, "TLS_SERVER_KEY": key, "TLS_SERVER_ROOT_CERT": roots,
	})
	require.NoError(t, err)
	d.envoy = envoytest.Start(t, following(t, b.listen(t).Target(), &corev3.Node{Id: "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local", Cluster: "web", Metadata: metadata}))
	return d
}

// following is the bootstrap of an Envoy that asks an xDS server for all that it has.
func following(t *testing.T, address string, node *corev3.Node) *bootstrapv3.Bootstrap {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal(fmt.Appendf(nil, `{
		"dynamicResources": {
			"adsConfig": {"apiType": "DELTA_GRPC", "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]},
			"ldsConfig": {"ads": {}, "resourceApiVersion": "V3"}, "cdsConfig": {"ads": {}, "resourceApiVersion": "V3"}},
		"staticResources": {"clusters": [{"name": "xds", "type": "STATIC", "connectTimeout": "5s",
			"typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
				"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicitHttpConfig": {"http2ProtocolOptions": {}}}},
			"loadAssignment": {"clusterName": "xds", "endpoints": [{"lbEndpoints": [{"endpoint": {"address": {"socketAddress": {"address": %q, "portValue": %s}}}}]}]}}]}
	}`, host, port), b))
	b.Node = node
	return b
}

// asks is how a port answers a new connection of somebody: with a status, or why not.
func (d *doorway) asks(port uint32, identity string) string {
	d.t.Helper()
	return d.asksWith(port, d.authority.Issue(nil, identity).Certificate(d.t))
}

func (d *doorway) asksWith(port uint32, certificate tls.Certificate) string {
	d.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the server's name is not what this is about
		Certificates:       []tls.Certificate{certificate},
	}}}
	r, err := http.NewRequestWithContext(context.WithoutCancel(d.t.Context()), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", port), http.NoBody)
	require.NoError(d.t, err)
	answer, err := client.Do(r)
	if err != nil {
		return "error: " + err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(d.t, err)
	return fmt.Sprint(answer.StatusCode, " ", string(body))
}

// becomes waits until a port answers so.
func (d *doorway) becomes(want string, port uint32, identity string) {
	d.t.Helper()
	var got string
	require.Eventually(d.t, func() bool {
		got = d.asks(port, identity)
		return strings.Contains(got, want)
	}, 30*time.Second, 20*time.Millisecond, "%s at %d: want %s, got %s", identity, port, want, lazily(func() string { return got }))
}

// lazily is a text that is read when a test has failed.
type lazily func() string

func (l lazily) String() string { return l() }

// says waits until the access log has a line.
func (d *doorway) says(text string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		written, err := os.ReadFile(d.log)
		return err == nil && strings.Contains(string(written), text)
	}, 30*time.Second, 20*time.Millisecond, "the log has no %s", text)
}

// A real Envoy takes whom the mesh trusts, and refuses who was revoked, under each name of the
// trust domain, and says so in its log.
func TestEnvoyRefusesWhoWasRevoked(t *testing.T) {
	t.Parallel()
	const cart, old, clerk, partner = "spiffe://mesh.example/ns/shop/sa/cart", "spiffe://old.example/ns/shop/sa/cart",
		"spiffe://mesh.example/ns/shop/sa/clerk", "spiffe://partner.example/ns/shop/sa/cart"
	b := newBench()
	d := newDoorway(t, b)
	for _, port := range []uint32{d.http, d.tcp} {
		for _, identity := range []string{cart, old, clerk} {
			d.becomes("200 hello", port, identity)
		}
		require.Contains(t, d.asks(port, partner), "error", "another mesh's")
	}

	b.believe(mesh.Trust{Revoked: []string{"ns/shop/sa/cart"}, Federated: []string{"partner.example"}})
	d.becomes("403 RBAC: access denied", d.http, cart)
	d.becomes("error", d.tcp, cart)
	d.says("403 rbac_access_denied_matched_policy[revoked-ns[shop]-sa[cart]] - ")
	d.says("0 - rbac_access_denied_matched_policy[revoked-ns[shop]-sa[cart]] ")
	require.Contains(t, d.asks(d.http, old), "403")
	require.Contains(t, d.asks(d.tcp, old), "error")
	for _, port := range []uint32{d.http, d.tcp} {
		for _, identity := range []string{clerk, partner} {
			require.Contains(t, d.asks(port, identity), "200 hello", "%s at %d: nobody else is meant", identity, port)
		}
	}
	expired := d.authority.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, clerk)
	require.Contains(t, d.asksWith(d.http, expired.Certificate(t)), "error")
	d.says("CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_SAN_matcher,_certificate_SANs_are_[localhost,_127.0.0.1,_" + partner + "]")
	d.says("certificate_has_expired")
	stats := d.envoy.Get(t, "/stats?filter=revoked.*denied")
	require.Regexp(t, `rbac\.revoked\.denied: [1-9]`, stats)
	require.Regexp(t, `(?m)^revoked\.rbac\.denied: [1-9]`, stats)

	b.believe(mesh.Trust{})
	d.becomes("200 hello", d.http, cart)
	d.becomes("200 hello", d.tcp, old)
	d.becomes("error", d.http, partner)
}

package push_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// caller is a real Envoy beside a client, with a certificate in files.
type caller struct {
	t    *testing.T
	port uint32 // of the service that it calls
}

// newCaller starts one in the namespace front.
func newCaller(t *testing.T, b *bench, d *doorway, own *certtest.Authority) *caller {
	t.Helper()
	folder := t.TempDir()
	cert, key := own.Issue(nil, "spiffe://mesh.example/ns/front/sa/client").Write(t, folder)
	roots := filepath.Join(folder, "roots.pem")
	certtest.WriteFile(t, roots, d.authority.PEM)
	metadata, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "front", "INTERCEPTION_MODE": "NONE", "TLS_CLIENT_CERT_CHAIN": cert, "TLS_CLIENT_KEY": key, "TLS_CLIENT_ROOT_CERT": roots,
	})
	require.NoError(t, err)
	c := &caller{t: t, port: envoytest.Port(t)}
	c.serves(b, d, "serviceAccount: web")
	envoytest.Start(t, following(t, b.listen(t).Target(), &corev3.Node{Id: "sidecar~127.0.0.2~client.front~front.svc.cluster.local", Cluster: "client", Metadata: metadata}))
	return c
}

// serves declares what the endpoint of the service says of itself.
func (c *caller) serves(b *bench, d *doorway, endpoint string) {
	c.t.Helper()
	b.apply(c.t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %d, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, ports: {http: %d}, %s}]
`, c.port, d.http, endpoint))
}

func (c *caller) asks() string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(c.t.Context()), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", c.port), http.NoBody)
	require.NoError(c.t, err)
	r.Host = fmt.Sprintf("web.shop:%d", c.port)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return "error: " + err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(c.t, err)
	return fmt.Sprint(answer.StatusCode, " ", string(body))
}

func (c *caller) becomes(want string) {
	c.t.Helper()
	var got string
	require.Eventually(c.t, func() bool {
		got = c.asks()
		return strings.Contains(got, want)
	}, 30*time.Second, 20*time.Millisecond, "want %s, got %s", want, lazily(func() string { return got }))
}

// A client's Envoy connects with its certificate to the right server only, and both sides log why a
// connection fails: docs/mutual-tls.md quotes the texts.
func TestEnvoysConnectToWhomTheyMean(t *testing.T) {
	t.Parallel()
	b := newBench()
	d := newDoorway(t, b)
	c := newCaller(t, b, d, d.authority)
	c.becomes("200 hello")
	for _, cell := range []struct{ endpoint, want string }{
		{"serviceAccount: other", "503 upstream connect error"},
		{"labels: {security.istio.io/tlsMode: disabled}", "reset reason: connection termination"},
		{"labels: {security.istio.io/tlsMode: istio}", "200 hello"},
		{"serviceAccount: web", "200 hello"},
	} {
		c.serves(b, d, cell.endpoint)
		c.becomes(cell.want)
	}
	b.believe(mesh.Trust{Revoked: []string{"ns/shop/sa/web"}})
	c.becomes("503 no healthy upstream")
	b.believe(mesh.Trust{Revoked: []string{"ns/front/sa/client"}})
	c.becomes("403 RBAC: access denied")
	b.believe(mesh.Trust{})
	c.becomes("200 hello")
	b.apply(t, `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: DISABLE}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: web.shop, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}
`)
	c.becomes("503 upstream connect error")
	for _, line := range []string{
		"CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_SAN_matcher,_certificate_SANs_are_[localhost,_127.0.0.1,_spiffe://mesh.example/ns/shop/sa/web]",
		"SSLV3_ALERT_CERTIFICATE_UNKNOWN",
		"503 upstream_reset_before_response_started{connection_termination}",
		"0 filter_chain_not_found", "HTTP_REQUEST",
		"503 no_healthy_upstream",
		"403 rbac_access_denied_matched_policy[revoked-ns[front]-sa[client]]",
		"WRONG_VERSION_NUMBER",
	} {
		d.says(line)
	}
}

func TestEnvoyRefusesAForeignCertificate(t *testing.T) {
	t.Parallel()
	b := newBench()
	d := newDoorway(t, b)
	c := newCaller(t, b, d, certtest.NewAuthority(t))
	c.becomes("503")
	d.says("CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_X509_verify_cert:_certificate_verification_error_at_depth_0:_unable_to_get_local_issuer_certificate")
}

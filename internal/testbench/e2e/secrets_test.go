package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // what the bootstrap names
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// secret writes a secret of the mesh's namespace.
func (m *mesh) secret(name string, data map[string]string) {
	m.t.Helper()
	text, err := json.Marshal(data)
	require.NoError(m.t, err)
	_, err = m.db.Exec(m.t.Context(), `INSERT INTO mesh.secrets (namespace, name, data, service_accounts) VALUES ($1, $2, mesh.secret_data($3), '{*}')
		ON CONFLICT (namespace, name) DO UPDATE SET data = EXCLUDED.data`, m.namespace, name, string(text))
	require.NoError(m.t, err)
}

func tlsData(p certtest.Pair, authorities ...byte) map[string]string {
	data := map[string]string{"tls.crt": string(p.Cert), "tls.key": string(p.Key)}
	if len(authorities) > 0 {
		data["ca.crt"] = string(authorities)
	}
	return data
}

// gatewayBootstrap is a gateway with a listener of its own, which gets its certificate from
// discovery. A listener of a Gateway does so in the same way.
const gatewayBootstrap = `
node:
  id: router~127.0.0.1~gate.%[1]s~%[1]s.svc.cluster.local
  cluster: gate
  metadata: {NAMESPACE: %[1]s}
dynamic_resources:
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[2]s}}}}]}]}
  listeners:
  - name: https
    address: {socket_address: {address: 127.0.0.1, port_value: %[3]s}}
    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: %[5]t
          common_tls_context:
            tls_certificate_sds_secret_configs: [{name: "kubernetes://%[4]s", sds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 1s}}]
            combined_validation_context:
              default_validation_context: {}
              validation_context_sds_secret_config: {name: "kubernetes://%[4]s-cacert", sds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 1s}}
      filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: https
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: served}}}]}]}
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
`

// gateway starts an Envoy that serves HTTPS with a secret, and returns its URL.
func (m *mesh) gateway(secret string, mutual bool) (envoy *envoytest.Envoy, url string) {
	m.t.Helper()
	_, xds, _ := strings.Cut(m.XDS, ":")
	port := newPort(m.t)
	var tree any
	require.NoError(m.t, yaml.Unmarshal(fmt.Appendf(nil, gatewayBootstrap, m.namespace, xds, port, secret, mutual), &tree))
	text, err := json.Marshal(tree)
	require.NoError(m.t, err)
	bootstrap := &bootstrapv3.Bootstrap{}
	require.NoError(m.t, protojson.Unmarshal(text, bootstrap))
	return envoytest.Start(m.t, bootstrap), "https://127.0.0.1:" + port
}

// ask calls a gateway over TLS, and returns the serial number of its certificate, and whether the
// connection was reused.
func ask(ctx context.Context, c *http.Client, url string) (serial *big.Int, reused bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, false, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "served" {
		return nil, false, fmt.Errorf("answered %q: %w", body, err)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber, reused, nil
}

func trusting(t *testing.T, a *certtest.Authority, keep bool, with ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: !keep, TLSClientConfig: &tls.Config{RootCAs: a.Pool(), Certificates: with, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func serialOf(t *testing.T, p certtest.Pair) *big.Int {
	t.Helper()
	cert, err := x509.ParseCertificate(p.Certificate(t).Certificate[0])
	require.NoError(t, err)
	return cert.SerialNumber
}

// A certificate that is replaced by SQL is shown to the next connection. Open connections stay, and
// requests on them are answered.
func TestANewCertificateIsServedAndNoConnectionIsDropped(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	authority := certtest.NewAuthority(t)
	first, second := authority.Issue(nil), authority.Issue(nil)
	m.secret("gate", tlsData(first, authority.PEM...))
	_, url := m.gateway("gate", false)
	held, fresh := trusting(t, authority, true), trusting(t, authority, false)
	eventually(t, func(ctx context.Context) error {
		serial, _, err := ask(ctx, held, url)
		if err == nil && serial.Cmp(serialOf(t, first)) != 0 {
			err = errors.New("another certificate")
		}
		return err
	})

	m.secret("gate", tlsData(second, authority.PEM...))
	eventually(t, func(ctx context.Context) error {
		if serial, reused, err := ask(ctx, held, url); err != nil || !reused || serial.Cmp(serialOf(t, first)) != 0 {
			t.Errorf("the open connection was not kept: %v, reused %t", err, reused)
		}
		serial, _, err := ask(ctx, fresh, url)
		require.NoError(t, err, "no handshake may fail meanwhile")
		if serial.Cmp(serialOf(t, second)) != 0 {
			return errors.New("the old certificate is served")
		}
		return nil
	})
	_, reused, err := ask(t.Context(), held, url)
	require.NoError(t, err)
	require.True(t, reused)
}

func TestClientsAreJudgedByTheAuthoritiesOfTheSecret(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	servers, ours, others := certtest.NewAuthority(t), certtest.NewAuthority(t), certtest.NewAuthority(t)
	m.secret("gate", tlsData(servers.Issue(nil), ours.PEM...))
	_, url := m.gateway("gate", true)
	mine, theirs := trusting(t, servers, false, ours.Issue(nil).Certificate(t)), trusting(t, servers, false, others.Issue(nil).Certificate(t))
	eventually(t, func(ctx context.Context) error { _, _, err := ask(ctx, mine, url); return err })
	_, _, err := ask(t.Context(), theirs, url)
	require.Error(t, err)
	_, _, err = ask(t.Context(), trusting(t, servers, false), url)
	require.Error(t, err)

	// Authorities in a secret of their own take precedence, and can be changed too.
	m.secret("gate-cacert", map[string]string{"cacert": string(others.PEM)})
	eventually(t, func(ctx context.Context) error { _, _, err := ask(ctx, theirs, url); return err })
	_, _, err = ask(t.Context(), mine, url)
	require.Error(t, err)
}

// A listener whose secret is missing is up, and refuses. The operator is told, and the secret is
// used when it comes.
func TestASecretThatComesLater(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	_, url := m.gateway("late", false)
	authority := certtest.NewAuthority(t)
	client := trusting(t, authority, false)
	_, _, err := ask(t.Context(), client, url)
	require.Error(t, err)
	eventually(t, func(ctx context.Context) error { // the log is not checked: it has a rate limit
		if page := m.problemsPage(ctx); !strings.Contains(page, "kubernetes://late is unknown") {
			return errors.New("discovery does not say that the secret is missing: " + page)
		}
		return nil
	})
	m.secret("late", tlsData(authority.Issue(nil), authority.PEM...))
	eventually(t, func(ctx context.Context) error { _, _, err := ask(ctx, client, url); return err })
}

// askFor asks discovery for secrets as a proxy would. It returns those that it is given, and the
// names of the others.
func askFor(t *testing.T, control *stack.Stack, node string, names ...string) (given []*tlsv3.Secret, without []string) {
	t.Helper()
	conn, err := grpc.NewClient(control.XDS, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: node}, ResourceNamesSubscribe: names,
		TypeUrl: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	for _, r := range answer.GetResources() {
		s := &tlsv3.Secret{}
		require.NoError(t, r.GetResource().UnmarshalTo(s))
		given = append(given, s)
	}
	return given, answer.GetRemovedResources()
}

func TestOnlyGatewaysOfTheNamespaceAreGivenASecret(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	pair := certtest.NewAuthority(t).Issue(nil)
	m.secret("gate", tlsData(pair))
	m.secret("unasked", tlsData(pair))
	node := func(kind, namespace string) string {
		return kind + "~10.0.0.9~x." + namespace + "~" + namespace + ".svc.cluster.local"
	}
	forms := []string{"kubernetes://gate", "kubernetes://" + m.namespace + "/gate", "kubernetes-gateway://" + m.namespace + "/gate"}
	eventually(t, func(context.Context) error {
		given, without := askFor(t, control, node("router", m.namespace), forms...)
		if len(without) > 0 {
			return fmt.Errorf("it is not given %v", without)
		}
		require.Len(t, given, 3, "and nothing that was not asked for")
		require.Equal(t, pair.Key, given[0].GetTlsCertificate().GetPrivateKey().GetInlineBytes())
		return nil
	})
	before, err := scrape(t.Context(), control.Discovery)
	require.NoError(t, err)
	for _, stranger := range []string{node("sidecar", m.namespace), node("router", "elsewhere")} {
		given, without := askFor(t, control, stranger, append(forms, "kubernetes://gate-cacert")...)
		require.Empty(t, given, stranger)
		require.Len(t, without, 4, stranger)
	}
	given, without := askFor(t, control, node("router", m.namespace), "kubernetes://gate-cacert")
	require.Empty(t, given)
	require.Equal(t, []string{"kubernetes://gate-cacert"}, without, "it has no authorities")
	after, err := scrape(t.Context(), control.Discovery)
	require.NoError(t, err)
	const denied = `pgmesh_discovery_secrets_denied_total{reason="forbidden"}`
	require.GreaterOrEqual(t, after[denied]-before[denied], float64(6))
	eventually(t, func(context.Context) error { // of many denials it logs one a second
		if strings.Contains(control.Discovery.Log(), "secrets are for gateways alone") {
			return nil
		}
		askFor(t, control, node("sidecar", m.namespace), forms[0])
		return errors.New("the log does not say that secrets are for gateways alone")
	})
}

// The contents of a secret are in no log, metric, problem, history or file.
func TestNothingOfASecretIsToldElsewhere(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(nil)
	m.secret("gate", tlsData(pair, authority.PEM...))
	_, url := m.gateway("gate", false)
	eventually(t, func(ctx context.Context) error { _, _, err := ask(ctx, trusting(t, authority, false), url); return err })
	planted := strings.Split(string(pair.Key), "\n")[1]
	for _, p := range []*stack.Program{control.MCPServer, control.Discovery} {
		require.NotContains(t, p.Log(), planted)
		for _, page := range []string{"/metrics", "/readyz", "/healthz"} {
			_, body, err := fetch(t.Context(), "http://"+p.HTTP()+page)
			require.NoError(t, err)
			require.NotContains(t, body, planted, page)
		}
	}
	for _, view := range []string{"mesh.history", "mesh.revisions", "mesh.problems", "mesh.resources", "mesh_internal.secret_changes", "mesh_internal.transactions", "mesh_internal.links"} {
		var rows *string
		require.NoError(t, m.db.QueryRow(t.Context(), "SELECT string_agg(t::text, '') FROM "+view+" t").Scan(&rows))
		if rows != nil {
			require.NotContains(t, *rows, planted, view)
			require.NotContains(t, *rows, strconv.Quote(planted)[1:20], view)
		}
	}
	out, err := control.Client(t.Context(), "", "snapshot", "-A", "-o", "yaml")
	require.NotContains(t, out, planted, err)
	require.NoError(t, filepath.WalkDir(filepath.Join(bin, "shared"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), planted, path)
		return err
	}))
}

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// secureMesh is a mesh whose members have identities.
type secureMesh struct{ *mesh }

// newSecureMesh starts a control plane. Its authority is its own, or one that the test holds, which
// can then make certificates that nobody would be given. The flags are for discovery.
func newSecureMesh(t testing.TB, root *certtest.Authority, flags ...string) *secureMesh {
	t.Helper()
	return secureMeshOn(t, pgtest.New(t), root, flags...)
}

func secureMeshOn(t testing.TB, database string, root *certtest.Authority, flags ...string) *secureMesh {
	t.Helper()
	var files *stack.Files
	if root != nil {
		cert, key := root.Write(t, t.TempDir())
		files = &stack.Files{Cert: cert, Key: key, Roots: cert}
	}
	control, err := stack.NewSecure(bin, t.TempDir(), database, files)
	require.NoError(t, err)
	control.DiscoveryFlags(flags...)
	return secureMeshOf(t, control, database)
}

// secureMeshOf starts the programs of a mesh.
func secureMeshOf(t testing.TB, control *stack.Stack, database string) *secureMesh {
	t.Helper()
	t.Cleanup(func() {
		control.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	require.NoError(t, control.Start(t.Context()))
	return &secureMesh{meshWithoutEnvoy(t, control, database)}
}

// joinToken creates a token for an identity: namespace/service-account.
func (m *secureMesh) joinToken(identity string, flags ...string) string {
	m.t.Helper()
	token, err := m.JoinToken(m.t.Context(), identity, flags...)
	require.NoError(m.t, err)
	return token
}

// member starts a machine with an Envoy.
func (m *secureMesh) member(identity, name string, flags ...string) *stack.Program {
	m.t.Helper()
	return m.memberBy(m.joinToken(identity), name, flags...)
}

// memberBy does so with a token that there is already.
func (m *secureMesh) memberBy(token, name string, flags ...string) *stack.Program {
	m.t.Helper()
	p, err := m.Member(envoytest.Binary(m.t), name, token, append([]string{"--concurrency", "1", "--drain-time", "0s"}, flags...)...)
	require.NoError(m.t, err)
	require.NoError(m.t, p.Start())
	m.t.Cleanup(func() {
		p.Stop()
		if m.t.Failed() {
			m.t.Logf("the log of %s and its Envoy:\n%s", name, p.Log())
		}
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	require.NoError(m.t, p.Ready(ctx))
	return p
}

// says waits until a line of a log matches.
func says(t testing.TB, log func() string, pattern string) {
	t.Helper()
	line := regexp.MustCompile(pattern)
	eventually(t, func(context.Context) error {
		if text := log(); !line.MatchString(text) {
			return fmt.Errorf("no line matches %s", pattern)
		}
		return nil
	})
}

// join tries to make a machine a member, with the command that people use, and returns its output.
func (m *secureMesh) join(token, state string, flags ...string) (string, error) {
	m.t.Helper()
	file := filepath.Join(m.t.TempDir(), "token")
	require.NoError(m.t, os.WriteFile(file, []byte(token), 0o600))
	return m.Run(m.t.Context(), "mesh-agent", append([]string{"join", "--server", m.XDS, "--token-file", file, "--state-dir", state}, flags...)...)
}

// policies are the server's ports, each with a policy of its own.
var policies = []string{"strict", "permissive", "disable", "allow", "deny", "custom"}

// outcome is the status that a client gets, if it gets that far, and what the server's access log
// says of it.
type outcome struct {
	status int
	why    string
}

// What the server's Envoy says of requests and connections in its access log.
const (
	passes    = "via_upstream"
	noPolicy  = `rbac_access_denied_matched_policy\[none\]`
	denied    = `rbac_access_denied_matched_policy\[ns\[shop\]-policy\[deny\]-rule\[0\]\]`
	asked     = "ext_authz_denied"
	notTLS    = "filter_chain_not_found"
	notHTTP   = "http1.codec_error"
	expired   = "certificate_has_expired"
	unknownCA = "unable_to_get_local_issuer_certificate|self_signed_certificate"
	misnamed  = "SAN_matcher"
	badToken  = "jwt_authn_access_denied.*Jwt_verification_fails"
	oldToken  = "jwt_authn_access_denied.*Jwt_is_expired"
	ofOthers  = "jwt_authn_access_denied.*Audiences_in_Jwt_are_not_allowed"
)

// all is the same outcome for every policy.
func all(o outcome) map[string]outcome {
	m := map[string]outcome{}
	for _, p := range policies {
		m[p] = o
	}
	return m
}

// but returns the outcomes with some replaced.
func but(m, others map[string]outcome) map[string]outcome {
	all := maps.Clone(m)
	maps.Copy(all, others)
	return all
}

// table is a server with all policies, each on its own port, and clients of all types.
type table struct {
	*secureMesh

	root   *certtest.Authority
	ports  map[string]string
	server *stack.Program
	signer *signer
	cart   string // the port on which the Envoy of ns/shop/sa/cart takes requests for all services
	teller string // that of ns/bank/sa/teller
}

func newTable(t *testing.T) *table {
	t.Helper()
	root := certtest.NewAuthority(t)
	tb := &table{secureMesh: newSecureMesh(t, root), root: root, ports: map[string]string{}, signer: newSigner(t, "issuer.test"), cart: newPort(t), teller: newPort(t)}
	app, gate := newBackend(t, "app", nil), newPrincipalAuthorizer(t, "spiffe://cluster.local/ns/shop/sa/cart")
	for _, p := range policies {
		tb.ports[p] = newPort(t)
	}
	tb.commit(append(tb.services(), tb.ingress(app.port), tb.access(), tb.settings(), entry("gate.mesh", "GRPC", "grpc", "9000", []string{endpoint("v1", "grpc", gate.port)}))...)
	tb.server = tb.member("shop/server", "server", "--labels", "app=server")
	// An endpoint at a proxy's address, in its namespace, decides what the proxy serves, so these
	// have other addresses.
	tb.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", "127.0.0.2")
	tb.member("bank/teller", "teller", "--labels", "app=teller", "--node-ip", "127.0.0.3")
	return tb
}

// services are one for each policy, with a port for each client.
func (tb *table) services() (all []string) {
	for _, p := range policies {
		all = append(all, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %[2]s, name: http-cart, protocol: HTTP}, {number: %[3]s, name: http-teller, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, serviceAccount: server, labels: {app: server}, ports: {http-cart: %[4]s, http-teller: %[4]s}}]
`, p, tb.cart, tb.teller, tb.ports[p]))
	}
	return append(all, tb.egress("shop", "cart", tb.cart), tb.egress("bank", "teller", tb.teller))
}

func (tb *table) egress(namespace, name, port string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  workloadSelector: {labels: {app: %[2]s}}
  egress: [{port: {number: %[3]s, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: ['shop/*']}]
`, namespace, name, port)
}

// ingress has a port for each policy. The same application is behind all of them.
func (tb *table) ingress(app string) string {
	var ports []string
	for _, p := range policies {
		ports = append(ports, fmt.Sprintf("{port: {number: %s, name: http-%s, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}", tb.ports[p], p, app))
	}
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: server, namespace: shop}
spec:
  workloadSelector: {labels: {app: server}}
  egress: [{hosts: ['*/gate.mesh']}]
  ingress: [%s]
`, strings.Join(ports, ", "))
}

// settings are the mesh's: what is logged, and which authorizers there are.
func (tb *table) settings() string {
	return `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec:
  accessLogFile: /dev/stdout
  accessLogFormat: 'port=%DOWNSTREAM_LOCAL_PORT% path=%REQ(:PATH)% %RESPONSE_CODE_DETAILS% %UPSTREAM_TRANSPORT_FAILURE_REASON%'
  extensionProviders: [{name: gate, envoyExtAuthzGrpc: {service: gate.mesh, port: 9000}}]
`
}

// access are the policies.
func (tb *table) access() string {
	var others []string
	for _, p := range policies {
		if p != "allow" {
			others = append(others, "'"+tb.ports[p]+"'")
		}
	}
	of := func(kind, name, spec string) string {
		return fmt.Sprintf("---\napiVersion: security.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: shop}\nspec:\n  selector: {matchLabels: {app: server}}\n%s\n", kind, name, indent(spec))
	}
	return of("PeerAuthentication", "server", fmt.Sprintf("portLevelMtls: {%s: {mode: STRICT}, %s: {mode: DISABLE}}", tb.ports["strict"], tb.ports["disable"])) +
		of("AuthorizationPolicy", "allow", fmt.Sprintf(`
rules:
- to: [{operation: {ports: [%s]}}]
- to: [{operation: {ports: ['%s']}}]
  from: [{source: {principals: [cluster.local/ns/shop/sa/cart]}}]`, strings.Join(others, ", "), tb.ports["allow"])) +
		of("AuthorizationPolicy", "deny", fmt.Sprintf("action: DENY\nrules: [{to: [{operation: {ports: ['%s']}}], from: [{source: {notNamespaces: [shop]}}]}]", tb.ports["deny"])) +
		of("AuthorizationPolicy", "custom", fmt.Sprintf("action: CUSTOM\nprovider: {name: gate}\nrules: [{to: [{operation: {ports: ['%s']}}]}]", tb.ports["custom"])) +
		of("RequestAuthentication", "server", "jwtRules: [{issuer: issuer.test, audiences: [shop], jwks: '"+tb.signer.keys()+"'}]")
}

// client sends a request to the port of a policy.
type client func(ctx context.Context, policy, path string) (*answer, error)

// plainly uses no TLS.
func (tb *table) plainly(ctx context.Context, policy, path string) (*answer, error) {
	return send(ctx, tb.client, address(tb.ports[policy]), request{path: path})
}

// through goes through the Envoy of a member.
func (tb *table) through(port string, header http.Header) client {
	return func(ctx context.Context, policy, path string) (*answer, error) {
		return send(ctx, tb.client, address(port), request{host: policy + ".mesh", path: path, header: header})
	}
}

// over shows a certificate as members do, and verifies nothing.
func (tb *table) over(pair certtest.Pair) client {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"istio-http/1.1"}, Certificates: []tls.Certificate{pair.Certificate(tb.t)},
		InsecureSkipVerify: true, // only the client is tested
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	}}
	return func(ctx context.Context, policy, path string) (*answer, error) {
		return send(ctx, &http.Client{Transport: transport}, address(tb.ports[policy]), request{path: path})
	}
}

// row is a client, with its outcome for each policy.
type row struct {
	name string
	want map[string]outcome
	ask  client
}

// rows are the clients in the table.
func (tb *table) rows(t *testing.T, good string) []row {
	t.Helper()
	const cart = "spiffe://cluster.local/ns/shop/sa/cart"
	everywhere := all(outcome{http.StatusOK, passes})
	plain := but(everywhere, map[string]outcome{
		"strict": {0, notTLS}, "allow": {http.StatusForbidden, noPolicy}, "deny": {http.StatusForbidden, denied}, "custom": {http.StatusUnauthorized, asked},
	})
	stranger := but(plain, map[string]outcome{"strict": {http.StatusOK, passes}})
	atTheDoor := func(why string) map[string]outcome {
		return but(all(outcome{0, why}), map[string]outcome{"disable": {0, notHTTP}})
	}
	bearing := func(claims map[string]any) client { return tb.through(tb.cart, bearer(tb.signer.token(claims))) }
	thief := tb.joined(t, "shop/thief")
	return []row{
		{"plain", plain, tb.plainly},
		{"member", everywhere, tb.through(tb.cart, nil)},
		{"member-with-token", everywhere, tb.through(tb.cart, bearer(good))},
		{"other-namespace", stranger, tb.through(tb.teller, nil)},
		{"expired-certificate", atTheDoor(expired), tb.over(tb.root.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, cart))},
		{"foreign-root", atTheDoor(unknownCA), tb.over(certtest.NewAuthority(t).Issue(nil, cart))},
		{"revoked-token", plain, tb.turnedAway(t, "token_revoked", "ask who gave it to you for another", func() string {
			token := tb.joinToken("shop/cart", "taken-back")
			out, err := tb.Client(t.Context(), "", "token", "revoke", "taken-back")
			require.NoError(t, err, out)
			return token
		})},
		{"replayed-token", plain, tb.turnedAway(t, "token_used", "if that was not you, somebody else has it", func() string {
			token := tb.joinToken("shop/cart")
			out, err := tb.join(token, t.TempDir())
			require.NoError(t, err, out)
			return token
		})},
		{"wrong-san", atTheDoor(misnamed), tb.over(tb.root.Issue(nil, "spiffe://another.mesh/ns/shop/sa/cart"))},
		{"node-id-of-another", but(stranger, map[string]outcome{"deny": {http.StatusOK, passes}, "disable": {0, notHTTP}}), tb.claiming(t, thief, "bank", "teller")},
		{"tampered-jwt", all(outcome{http.StatusUnauthorized, badToken}), tb.through(tb.cart, bearer(tampered(good)))},
		{"expired-jwt", all(outcome{http.StatusUnauthorized, oldToken}), bearing(map[string]any{"aud": "shop", "exp": time.Now().Add(-time.Hour).Unix()})},
		{"wrong-audience", all(outcome{http.StatusForbidden, ofOthers}), bearing(map[string]any{"aud": "bank"})},
	}
}

// came is the outcome of a client's request.
type came struct {
	answer *answer
	err    error
}

// asks has each client send a request for each policy, and returns when all of it is in the access
// log. It waits for what is written last.
func (tb *table) asks(t *testing.T, rows []row) map[string]came {
	t.Helper()
	var mu sync.Mutex
	var clients sync.WaitGroup
	all := map[string]came{}
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	for _, r := range rows {
		for _, policy := range policies {
			clients.Go(func() {
				a, err := r.ask(ctx, policy, "/"+r.name+"/"+policy)
				mu.Lock()
				defer mu.Unlock()
				all[r.name+"/"+policy] = came{a, err}
			})
		}
	}
	clients.Wait()
	_, err := tb.plainly(ctx, "permissive", "/last")
	require.NoError(t, err)
	says(t, tb.server.Log, "(?m)^port="+tb.ports["permissive"]+" path=/last ")
	return all
}

func TestPoliciesDecideWhichClientsGetIn(t *testing.T) {
	t.Parallel()
	tb := newTable(t)
	good := tb.signer.token(map[string]any{"aud": "shop"})
	rows := tb.rows(t, good)
	tb.reachable(tb.cart, tb.teller)
	outcomes := tb.asks(t, rows)
	secrets := tb.keptSecrets("discovery", "server", "cart", "teller")
	cert, key := tb.root.Write(t, t.TempDir())
	secrets["the root's key"] = string(read(t, filepath.Dir(cert), filepath.Base(key)))
	secrets["somebody's token for requests"] = good
	tb.hides(secrets, tb.server)
	log := tb.server.Log()
	for _, r := range rows {
		for _, policy := range policies {
			t.Run(r.name+"/"+policy, func(t *testing.T) {
				t.Parallel()
				want, got, path := r.want[policy], outcomes[r.name+"/"+policy], "/"+r.name+"/"+policy
				if want.status == 0 {
					require.Error(t, got.err, "%+v", got.answer)
					path = "-" // it did not get that far
				} else {
					require.NoError(t, got.err)
					require.Equal(t, want.status, got.answer.status, got.answer.body)
				}
				require.Regexp(t, "(?m)^port="+tb.ports[policy]+" path="+path+" .*("+want.why+")", log)
			})
		}
	}
}

// reachable waits until the Envoys of clients know all services, and that of the server serves all
// ports.
func (tb *table) reachable(ports ...string) {
	tb.t.Helper()
	for _, port := range ports {
		for _, policy := range policies {
			eventually(tb.t, func(ctx context.Context) error {
				a, err := tb.through(port, nil)(ctx, policy, "/ready")
				if err == nil && a.status >= http.StatusInternalServerError {
					err = fmt.Errorf("answered %d: %s", a.status, a.body)
				}
				return err
			})
		}
	}
}

// joined makes a machine a member, and returns its certificate.
func (tb *table) joined(t *testing.T, identity string) certtest.Pair {
	t.Helper()
	state := t.TempDir()
	out, err := tb.join(tb.joinToken(identity), state)
	require.NoError(t, err, out)
	both := read(t, state, "identity.pem")
	return certtest.Pair{Cert: both, Key: both}
}

// turnedAway tries to join with a token that is no longer valid. The machine is left without a
// certificate.
func (tb *table) turnedAway(t *testing.T, why, advice string, spent func() string) client {
	t.Helper()
	state, token := t.TempDir(), spent()
	out, err := tb.join(token, state)
	require.Error(t, err, out)
	require.Contains(t, out, advice)
	require.NotContains(t, out, token[len(token)-20:])
	left, err := os.ReadDir(state)
	require.NoError(t, err)
	for _, f := range left {
		require.NotContains(t, f.Name(), "identity")
	}
	says(t, tb.Discovery.Log, why)
	eventually(t, func(ctx context.Context) error {
		var rows int
		err := tb.db.QueryRow(ctx, "SELECT count(*) FROM mesh.certificates WHERE refusal = $1", why).Scan(&rows)
		if err == nil && rows == 0 {
			err = errors.New("there is no record of it")
		}
		return err
	})
	return tb.plainly
}

// claiming opens a stream as an Envoy that claims to be somebody else than its certificate proves.
// To other machines it is who that proves.
func (tb *table) claiming(t *testing.T, pair certtest.Pair, namespace, account string) client {
	t.Helper()
	conn, err := grpc.NewClient(tb.XDS, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair.Certificate(t)}, InsecureSkipVerify: true,
	})))
	require.NoError(t, err)
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": namespace, "SERVICE_ACCOUNT": account})
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "sidecar~127.0.0.1~x." + namespace + "~" + namespace + ".svc.cluster.local", Metadata: metadata}, TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	}))
	_, err = stream.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "spiffe://cluster.local/ns/shop/sa/thief")
	says(t, tb.Discovery.Log, "spiffe://cluster.local/ns/shop/sa/thief.*"+namespace)
	return tb.over(pair)
}

func read(t testing.TB, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return content
}

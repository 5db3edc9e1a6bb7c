package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// policy is an AuthorizationPolicy; rules is its spec.
func policy(name, rules string) string {
	return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: " + name + "}\nspec:\n" + indent(rules) + "\n"
}

// tried is a policy that is tried, and not enforced.
func tried(name, rules string) string {
	return strings.Replace(policy(name, rules), "{name: "+name+"}", "{name: "+name+", annotations: {istio.io/dry-run: 'true'}}", 1)
}

// guarded is a mesh whose Envoy stands in front of an application and a greeter, each on two ports.
type guarded struct {
	*mesh

	web, tcp, otherTCP string
}

func newGuarded(m *mesh, app *backend, greeter *greeter) *guarded {
	m.t.Helper()
	g := &guarded{m, newPort(m.t), newPort(m.t), newPort(m.t)}
	g.commit(limits(fmt.Sprintf(`
egress: [{hosts: [./*]}]
ingress:
- {port: {number: %s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}
- {port: {number: %s, name: tcp, protocol: TCP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}
- {port: {number: %s, name: tcp-other, protocol: TCP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}
`, g.web, app.port, g.tcp, greeter.port, g.otherTCP, greeter.port)))
	g.becomes(http.StatusOK, request{})
	reaches(m.t, g.tcp, greeter.name)
	reaches(m.t, g.otherTCP, greeter.name)
	return g
}

// becomes waits until a request to the application has this status.
func (g *guarded) becomes(status int, r request) {
	g.t.Helper()
	eventually(g.t, func(ctx context.Context) error {
		a, err := send(ctx, g.client, address(g.web), r)
		if err == nil && a.status != status {
			err = fmt.Errorf("%s %s is answered %d, want %d: %s", r.method, r.path, a.status, status, a.body)
		}
		return err
	})
}

// is sends one request.
func (g *guarded) is(status int, r request) *answer {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), longestWait)
	defer cancel()
	a, err := send(ctx, g.client, address(g.web), r)
	require.NoError(g.t, err)
	require.Equal(g.t, status, a.status, "%s %s %v: %s", r.method, r.path, r.header, a.body)
	return a
}

// counted waits until a line of Envoy's statistics matches.
func (g *guarded) counted(pattern string) {
	g.t.Helper()
	eventually(g.t, func(ctx context.Context) error {
		a, err := sendURL(ctx, g.client, "http://"+g.agent.Admin+"/stats?filter=rbac", request{})
		if err == nil && !regexp.MustCompile(pattern).MatchString(a.body) {
			err = fmt.Errorf("no %s in\n%s", pattern, a.body)
		}
		return err
	})
}

// closes waits until connections to a port are refused.
func closes(t testing.TB, port string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if _, err := converse(ctx, address(port)); err == nil {
			return errors.New("the connection is let through")
		}
		return nil
	})
}

func bearing(name, value string) http.Header { return http.Header{name: {value}} }

func TestPoliciesAllowAndRefuseRequestsAndConnections(t *testing.T) {
	t.Parallel()
	app := newBackend(t, "app", nil)
	g := newGuarded(newMesh(t), app, newGreeter(t, "ledger"))

	g.commit(policy("allow", fmt.Sprintf(`
rules:
- to: [{operation: {methods: [GET], paths: ['/public/*', '/items/{*}/price', '/files/{**}/raw']}}]
- to: [{operation: {hosts: ['*.example.com'], paths: [/host]}}]
- to: [{operation: {methods: [P*], notMethods: [PATCH], paths: [/write]}}]
- to: [{operation: {paths: [/team]}}]
  when: [{key: 'request.headers[X-Team]', values: [blue, 'gr*'], notValues: [grim]}]
- to: [{operation: {paths: [/near]}}]
  from: [{source: {ipBlocks: [127.0.0.0/8]}}]
- to: [{operation: {paths: [/far]}}]
  from: [{source: {ipBlocks: [10.0.0.0/8]}}, {source: {notIpBlocks: [127.0.0.1]}}]
- to: [{operation: {paths: [/port]}}]
  when: [{key: destination.port, values: ['%s']}, {key: destination.ip, notValues: [10.0.0.0/8]}, {key: remote.ip, values: [127.0.0.1]}]
- to: [{operation: {paths: [/known]}}]
  from: [{source: {principals: ['*']}}, {source: {namespaces: [%s]}}]
- to: [{operation: {ports: ['%s']}}]
`, g.web, g.namespace, g.tcp)), policy("deny", `
action: DENY
rules:
- to: [{operation: {paths: [/public/secret, '*.bak'], ports: ['`+g.web+`']}}]
- when: [{key: 'request.headers[X-Evil]', values: ['*']}]
  to: [{operation: {ports: ['`+g.web+`']}}]
`), policy("audit", "action: AUDIT\nrules: [{}]"))
	g.becomes(http.StatusForbidden, request{})

	for _, may := range []request{
		{path: "/public/a"},
		{path: "/items/7/price"},
		{path: "/files/a/b/raw"},
		{host: "Shop.Example.com", path: "/host"},
		{method: http.MethodPost, path: "/write"},
		{path: "/team", header: bearing("X-Team", "blue")},
		{path: "/team", header: bearing("X-Team", "green")},
		{path: "/near"},
		{path: "/port"},
	} {
		require.NoError(t, g.is(http.StatusOK, may).from("app"))
	}
	before := app.asked.Load()
	for _, not := range []request{
		{path: "/private"},
		{method: http.MethodPost, path: "/public/a"},
		{path: "/items/7/8/price"},
		{host: "example.org", path: "/host"},
		{method: http.MethodPatch, path: "/write"},
		{path: "/team"},
		{path: "/team", header: bearing("X-Team", "red")},
		{path: "/team", header: bearing("X-Team", "grim")},
		{path: "/far"},
		{path: "/known"},
		{path: "/public/secret"},
		{path: "/public/x.bak"},
		{path: "/public/a", header: bearing("X-Evil", "yes")},
	} {
		require.Contains(t, g.is(http.StatusForbidden, not).body, "RBAC: access denied")
	}
	require.Equal(t, before, app.asked.Load(), "nothing of what is refused reaches the application")

	// In a rule that allows, conditions on requests let no connection through. In one that denies
	// they are left out, and the rest counts.
	reaches(t, g.tcp, "ledger")
	closes(t, g.otherTCP)

	// A policy in dry run refuses nobody. Another change comes with it, to show that it has
	// arrived.
	g.commit(tried("nothing", "action: DENY\nrules: [{}]"), policy("more", "rules: [{to: [{operation: {paths: [/more]}}]}]"))
	g.becomes(http.StatusOK, request{path: "/more"})
	g.is(http.StatusOK, request{path: "/public/a"})
	g.is(http.StatusForbidden, request{path: "/private"})
	g.counted("rbac\\.istio_dry_run_deny_\\.shadow_denied: [1-9]")

	// Once it is enforced, nothing passes; and nothing passes a policy that allows nothing.
	g.commit(policy("nothing", "action: DENY\nrules: [{}]"))
	g.becomes(http.StatusForbidden, request{path: "/public/a"})
	closes(t, g.tcp)
	g.transaction(func(tx pgx.Tx) {
		g.remove(tx, "AuthorizationPolicy", "nothing", "deny", "audit")
		g.put(tx, policy("more", "rules: [{to: [{operation: {paths: ['*']}}]}, {to: [{operation: {ports: ['"+g.otherTCP+"']}}]}]"))
	})
	g.becomes(http.StatusOK, request{path: "/private"})
	reaches(t, g.otherTCP, "ledger")
	g.transaction(func(tx pgx.Tx) {
		g.remove(tx, "AuthorizationPolicy", "more")
		g.put(tx, policy("allow", "{}"))
	})
	g.becomes(http.StatusForbidden, request{path: "/public/a"})
	closes(t, g.tcp)
	g.transaction(func(tx pgx.Tx) { g.remove(tx, "AuthorizationPolicy", "allow") })
	g.becomes(http.StatusOK, request{path: "/private"})
}

// Extension providers are for the whole mesh, so this test has its own.
func TestPoliciesAskAuthorizers(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	overGRPC, overHTTP, app := newAuthorizer(t), httpAuthorizer(t), newBackend(t, "app", nil)
	m := meshWithoutEnvoy(t, control, database)
	const (
		ownGRPC = "{name: own-grpc, envoyExtAuthzGrpc: {service: gate.mesh, port: 9000}}"
		ownHTTP = "{name: own, envoyExtAuthzHttp: {service: door.mesh, port: 9001, pathPrefix: /check, includeRequestHeadersInCheck: [x-tok*], " +
			"includeAdditionalHeadersInCheck: {x-mesh: shop}, headersToUpstreamOnAllow: [x-user], headersToDownstreamOnDeny: [www-authenticate]}}"
	)
	// Only its own namespace sees this one.
	const hidden = "{name: hidden, envoyExtAuthzGrpc: {service: hidden.mesh, port: 9002}}"
	m.commit(strings.Replace(entry("hidden.mesh", "GRPC", "grpc", "9002", []string{endpoint("v1", "grpc", overGRPC.port)}),
		"{name: hidden}\nspec:\n", "{name: hidden, namespace: elsewhere}\nspec:\n  exportTo: [.]\n", 1))
	m.commit(asking(ownGRPC, ownHTTP, hidden), entry("gate.mesh", "GRPC", "grpc", "9000", []string{endpoint("v1", "grpc", overGRPC.port)}),
		entry("door.mesh", "HTTP", "http", "9001", []string{endpoint("v1", "http", overHTTP.port)}))
	m.startAgent()
	g := newGuarded(m, app, newGreeter(t, "ledger"))
	asks := func(name, provider, rule string) string {
		return policy(name, "action: CUSTOM\nprovider: {name: "+provider+"}\nrules: [{to: [{operation: {"+rule+"}}]}]")
	}
	g.commit(asks("grpc", "own-grpc", "paths: ['/grpc/*'], ports: ['"+g.web+"']"), asks("tcp", "own-grpc", "ports: ['"+g.tcp+"']"), asks("http", "own", "paths: ['/http/*', '/grpc/both']"),
		asks("hidden", "hidden", "paths: [/hidden], ports: ['"+g.web+"']"),
		asks("nobody", "nobody", "paths: [/nobody], ports: ['"+g.web+"']"), policy("deny", "action: DENY\nrules: [{to: [{operation: {paths: [/grpc/never], ports: ['"+g.web+"']}}]}]"))
	good := bearing("X-Token", "good")
	g.becomes(http.StatusForbidden, request{path: "/nobody"})

	require.Contains(t, g.is(http.StatusUnauthorized, request{path: "/grpc/a"}).body, "no good token")
	g.is(http.StatusForbidden, request{path: "/hidden", header: good})
	require.Equal(t, "by grpc", g.is(http.StatusOK, request{path: "/grpc/a", header: good}).seen.Header.Get("X-User"))
	require.Equal(t, "Token", g.is(http.StatusUnauthorized, request{path: "/http/a"}).header.Get("Www-Authenticate"))
	passed := g.is(http.StatusOK, request{path: "/http/a", header: good})
	require.Equal(t, "by http", passed.seen.Header.Get("X-User"))
	require.Empty(t, passed.seen.Header.Get("X-Private"))
	require.Equal(t, "/check/http/a", overHTTP.last.Load().URI)
	require.Equal(t, "shop", overHTTP.last.Load().Header.Get("X-Mesh"))

	// Requests that no rule matches go to no authorizer, those that two rules match go to both, and
	// a denial wins.
	requests, web := overGRPC.aboutRequests.Load(), overHTTP.asked.Load()
	g.is(http.StatusOK, request{path: "/free"})
	require.Equal(t, requests, overGRPC.aboutRequests.Load())
	require.Equal(t, web, overHTTP.asked.Load())
	g.is(http.StatusOK, request{path: "/grpc/both", header: good})
	require.Equal(t, requests+1, overGRPC.aboutRequests.Load())
	require.Equal(t, web+1, overHTTP.asked.Load())
	g.is(http.StatusForbidden, request{path: "/grpc/never", header: good})

	// Connections: those to the other port go to no authorizer.
	closes(t, g.tcp)
	require.Positive(t, overGRPC.aboutConnections.Load())
	overGRPC.lets.Store(true)
	reaches(t, g.tcp, "ledger")
	connections := overGRPC.aboutConnections.Load()
	reaches(t, g.otherTCP, "ledger")
	require.Equal(t, connections, overGRPC.aboutConnections.Load())

	// The missing provider appears. It is the one over HTTP, under another name.
	g.commit(asking(ownGRPC, ownHTTP, hidden, strings.Replace(ownHTTP, "name: own,", "name: nobody,", 1)))
	g.becomes(http.StatusOK, request{path: "/nobody", header: good})

	// If an authorizer is away, nobody passes, or everybody, as its settings say.
	overGRPC.stop()
	g.becomes(http.StatusForbidden, request{path: "/grpc/a", header: good})
	g.commit(asking(strings.Replace(ownGRPC, "port: 9000", "port: 9000, statusOnError: '503'", 1), ownHTTP))
	g.becomes(http.StatusServiceUnavailable, request{path: "/grpc/a", header: good})
	g.commit(asking(strings.Replace(ownGRPC, "port: 9000", "port: 9000, failOpen: true", 1), ownHTTP))
	g.becomes(http.StatusOK, request{path: "/grpc/a"})
}

func TestAGatewayAllowsByTheIdentityOfClients(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	authority, clients := certtest.NewAuthority(t), certtest.NewAuthority(t)
	port, tcpPort := newPort(t), newPort(t)
	folder, cert, key := certified(t, authority, "shop.example.com")
	certtest.WriteFile(t, folder+"/clients.pem", clients.PEM)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), tcpService(ledger, "7000", newGreeter(t, "ledger")),
		m.exposing(https(port, "must", "shop.example.com", "OPTIONAL_MUTUAL", cert, key, ", caCertificates: "+folder+"/clients.pem"),
			"{port: {number: "+tcpPort+", name: tcp, protocol: TCP}, hosts: ['*']}"),
		exposed("shop", "shop.example.com", "http: "+to("shop.mesh")),
		exposed("ledger", "'*'", "tcp: [{match: [{port: "+tcpPort+"}], route: [{destination: {host: "+ledger+", port: {number: 7000}}}]}]"))
	as := func(identity ...string) customer {
		config := &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
		if len(identity) > 0 {
			config.Certificates = []tls.Certificate{clients.Issue(nil, identity...).Certificate(t)}
		}
		return customer{m: m, port: port, tls: config}
	}
	as().answers("shop.example.com", "shop")
	reaches(t, tcpPort, "ledger")

	m.commit(policy("known", `
selector: {matchLabels: {edge: `+m.namespace+`}}
rules:
- from: [{source: {principals: [cluster.local/ns/shop/sa/cart]}}, {source: {namespaces: ['team-*']}}, {source: {serviceAccounts: [bank/pay]}}, {source: {trustDomains: ['*.partner']}}]
  to: [{operation: {hosts: [shop.example.com], ports: ['`+port+`']}}]
  when: [{key: connection.sni, values: ['*.example.com']}]
`), policy("others", "selector: {matchLabels: {edge: nobody}}\naction: DENY\nrules: [{}]"))
	status := func(c customer) (int, error) {
		a, err := c.ask(t.Context(), request{host: "shop.example.com"})
		if err != nil {
			return 0, err
		}
		return a.status, nil
	}
	eventually(t, func(context.Context) error {
		if code, err := status(as()); err != nil || code != http.StatusForbidden {
			return fmt.Errorf("a client without a certificate is answered %d (%w)", code, err)
		}
		return nil
	})
	for identity, want := range map[string]int{
		"spiffe://cluster.local/ns/shop/sa/cart": http.StatusOK, "spiffe://cluster.local/ns/shop/sa/cart-2": http.StatusForbidden,
		"spiffe://cluster.local/ns/team-a/sa/x": http.StatusOK, "spiffe://cluster.local/ns/a-team/sa/x": http.StatusForbidden,
		"spiffe://other/ns/bank/sa/pay": http.StatusOK, "spiffe://other/ns/shop/sa/pay": http.StatusForbidden,
		"spiffe://our.partner/x/y": http.StatusOK, "spiffe://partner/x/y": http.StatusForbidden,
	} {
		code, err := status(as(identity))
		require.NoError(t, err)
		require.Equal(t, want, code, identity)
	}
	closes(t, tcpPort)
}

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// newAPIGateway creates a namespace of the shared control plane, with an Envoy that serves the
// Gateway of the Gateway API named edge.
func newAPIGateway(t testing.TB) *mesh {
	t.Helper()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.startAgent("--role", "gateway", "--gateway", "edge")
	return m
}

// listening is that Gateway; a listener is in YAML.
func listening(listeners ...string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec: {gatewayClassName: pgmesh, listeners: [%s]}
`, strings.Join(listeners, ", "))
}

// httpRoute is an HTTPRoute with a parent; rules are in YAML.
func httpRoute(name, parent, hostname string, rules ...string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s}
spec: {parentRefs: [%s], hostnames: [%q], rules: [%s]}
`, name, parent, hostname, strings.Join(rules, ", "))
}

// toHost is a backend by its host.
func toHost(host, port string) string {
	return "{group: networking.istio.io, kind: Hostname, name: " + host + ", port: " + port + "}"
}

func TestAGatewayOfTheGatewayAPIServesItsRoutes(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	shop, cart := newBackend(t, "shop", nil), newBackend(t, "cart", nil)
	services := m.port
	port := newPort(t)
	m.commit(m.service("shop.mesh", shop), m.service("cart.mesh", cart),
		listening("{name: http, port: "+port+", protocol: HTTP, hostname: '*.example.com'}"),
		httpRoute("shop", "{name: edge}", "shop.example.com",
			"{backendRefs: ["+toHost("shop.mesh", services)+"]}",
			"{matches: [{path: {value: /gone}}], backendRefs: ["+toHost("nobody.mesh", services)+"]}",
			"{matches: [{path: {value: /away}}], filters: [{type: RequestRedirect, requestRedirect: {hostname: away.example.com, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]}",
			"{matches: [{path: {value: /in}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], backendRefs: ["+toHost("shop.mesh", services)+"]}",
			"{matches: [{path: {value: /asked}}], filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, http: {path: /check}, backendRef: {name: auth, port: 80}}}], backendRefs: ["+toHost("shop.mesh", services)+"]}"),
		// A younger route for the same host, whose match is narrower.
		httpRoute("cart", "{name: edge, sectionName: http}", "shop.example.com",
			"{matches: [{path: {value: /cart}}], backendRefs: ["+toHost("cart.mesh", services)+"], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-by, value: edge}]}}]}"))
	m.port = port

	m.answers("shop.example.com", "shop")
	ask := func(path string) *answer {
		a, err := m.ask(t.Context(), request{host: "shop.example.com", path: path})
		require.NoError(t, err)
		return a
	}
	a := ask("/cart/1")
	require.NoError(t, a.from("cart"))
	require.Equal(t, "edge", a.seen.Header.Get("X-By"))
	require.NoError(t, ask("/carts").from("shop"), "a prefix is one of whole segments")
	require.Equal(t, http.StatusInternalServerError, ask("/gone").status, "its backend is not there")
	require.Equal(t, http.StatusInternalServerError, ask("/asked").status, "there is nobody to ask")
	a = ask("/away/here?x=1")
	require.Equal(t, http.StatusFound, a.status)
	require.Equal(t, "http://away.example.com:"+port+"/here?x=1", a.header.Get("Location"))
	require.Equal(t, "/deep", ask("/in/deep").seen.URI)
	require.Equal(t, "/", ask("/in").seen.URI)
	require.NoError(t, m.status(t.Context(), "other.example.com", http.StatusNotFound))

	// One route goes, and another is edited: the rest stays.
	m.commit(httpRoute("shop", "{name: edge}", "shop.example.com", "{backendRefs: ["+toHost("cart.mesh", services)+"]}"))
	m.answers("shop.example.com", "cart")
	require.NoError(t, ask("/cart").from("cart"))
}

func TestSidecarsFollowRoutesForServices(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	v1, v2 := newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	m.commit(m.service("one.mesh", v1), m.service("two.mesh", v2))
	m.answers("one.mesh", "v1")
	m.commit(httpRoute("one", "{group: networking.istio.io, kind: ServiceEntry, name: one}", "ignored.example.com",
		"{matches: [{headers: [{name: x-to, value: two}]}], backendRefs: ["+toHost("two.mesh", m.port)+"]}",
		"{backendRefs: ["+toHost("one.mesh", m.port)+"]}"))
	eventually(t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: "one.mesh", header: http.Header{"X-To": {"two"}}})
		if err != nil {
			return err
		}
		return a.from("v2")
	})
	m.answers("one.mesh", "v1")
}

// A service has a rule and a route. The route counts in its own namespace, unless the rule is for that
// namespace by name. Both are told of, and the transaction of docs/gateway-api.md moves from one to the
// other.
func TestARouteAndAVirtualServiceForOneService(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service("web.mesh", newBackend(t, "web", nil)), m.service("other.mesh", newBackend(t, "other", nil)))
	m.answers("web.mesh", "web")
	rule := func(exportTo string) string {
		return virtualService("web.mesh", "exportTo: ["+exportTo+"]\nhttp: [{route: [{destination: {host: other.mesh}}]}]")
	}
	m.commit(rule("'*'"))
	m.answers("web.mesh", "other")
	m.commit(httpRoute("web", "{group: networking.istio.io, kind: ServiceEntry, name: web}", "ignored.example.com",
		"{matches: [{path: {type: Exact, value: /}}], backendRefs: ["+toHost("web.mesh", m.port)+"]}"))
	m.answers("web.mesh", "web")
	require.Equal(t, http.StatusNotFound, m.must(request{host: "web.mesh", path: "/elsewhere"}).status, "the rules of the two are not merged")
	var told []string
	require.NoError(t, m.db.QueryRow(t.Context(), "SELECT array_agg(DISTINCT kind) FROM mesh.problems WHERE code = 'routed-twice' AND namespace = $1", m.namespace).Scan(&told))
	require.Equal(t, []string{"HTTPRoute", "VirtualService"}, told)

	m.commit(rule("."))
	m.answers("web.mesh", "other")
	m.transaction(func(tx pgx.Tx) { m.remove(tx, "HTTPRoute", "web") })
	blocks := page(t, "../../../docs/gateway-api.md", "'shop'", "'"+m.namespace+"'", "web.shop.mesh", "web.mesh", `"port": 80`, `"port": `+m.port, "BEGIN;", "", "COMMIT;", "")
	m.transaction(func(tx pgx.Tx) {
		for statement := range strings.SplitSeq(blockWith(t, blocks["sql"], "DELETE FROM mesh.virtual_services"), ";\n") {
			_, err := tx.Exec(t.Context(), statement)
			require.NoError(t, err)
		}
	})
	m.answers("web.mesh", "web")
}

func TestThePageOfTheGatewayAPIWorks(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port := m.port, newPort(t)
	m.commit(m.service("web.mesh", newBackend(t, "web", nil)), m.service("web2.mesh", newBackend(t, "web2", nil)))
	blocks := page(t, "../../../docs/gateway-api.md", "namespace: shop", "namespace: "+m.namespace, "namespace = 'shop'", "namespace = '"+m.namespace+"'", "('shop', 'shop'", "('"+m.namespace+"', 'shop'",
		"web.shop.mesh, port: 80", "web.mesh, port: "+services, "8080", port, "'web.shop.mesh', 80", "'web.mesh', "+services, "'web2.shop.mesh', 80", "'web2.mesh', "+services, "web.shop.mesh", "web.mesh")
	m.commit(blockWith(t, blocks["yaml"], "name: edge, namespace"))
	m.port = port
	m.answers("shop.example.com", "web")

	// Its SQL makes a rule, shifts its weights, and tells what is attached.
	m.transaction(func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), blockWith(t, blocks["sql"], "INSERT INTO mesh.http_route_rules"))
		require.NoError(t, err)
	})
	m.transaction(func(tx pgx.Tx) {
		updated, err := tx.Exec(t.Context(), blockWith(t, blocks["sql"], "UPDATE mesh.http_route_backends"))
		require.NoError(t, err)
		require.Equal(t, int64(2), updated.RowsAffected())
	})
	eventually(t, func(ctx context.Context) error {
		for range 20 { // before its weights are shifted, a tenth of the requests go there already
			a, err := m.ask(ctx, request{host: "shop.example.com", path: "/canary"})
			if err == nil {
				err = a.from("web2")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.Equal(t, map[string]int{"web": 5}, m.spread("shop.example.com", 5), "what is not the canary's")
	eventually(t, func(ctx context.Context) error {
		var attached string
		err := m.db.QueryRow(ctx, "SELECT string_agg(a::text, ' ') FROM ("+strings.TrimRight(blockWith(t, blocks["sql"], "FROM mesh.attached_routes"), ";\n")+") a").Scan(&attached)
		if want := "(HTTPRoute,shop,{http},t,t)"; err == nil && attached != want {
			return fmt.Errorf("attached is %s, want %s", attached, want)
		}
		return err
	})
}

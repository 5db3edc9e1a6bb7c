package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// edge is what these tests start from: a Gateway with an HTTPRoute.
const edge = `
	INSERT INTO mesh.k8s_gateways (name, gateway_class_name, listeners) VALUES ('edge', 'pgmesh', '[{"name": "http", "port": 80, "protocol": "HTTP"}]');
	INSERT INTO mesh.http_routes (name, parent_refs, hostnames, rules) VALUES ('shop', '[{"name": "edge"}]', '{shop.example.com}', '[
		{"name": "testers", "matches": [{"headers": [{"name": "x-user", "value": "tester"}]}, {"path": {"value": "/test"}}], "backendRefs": [{"name": "v2", "port": 80}]},
		{"timeouts": {"request": "2s"}, "backendRefs": [{"name": "v1", "port": 80, "weight": 90}, {"name": "v2", "port": 80, "weight": 10}],
			"filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-user"]}}]}]')`

func newEdge(t *testing.T) (session, string) {
	t.Helper()
	url := pgtest.New(t)
	db := connect(t, url)
	db.Exec(edge)
	return db, url
}

// shares tells the weights of the backends of HTTPRoutes, in order.
func (s session) shares() string {
	s.T.Helper()
	return strings.Join(collect[string](s, "SELECT concat(rule_position, '.', name, '=', weight) FROM mesh.http_route_backends ORDER BY rule_position, position"), " ")
}

// matched tells what the rules of HTTPRoutes match, in order.
func (s session) matched() string {
	s.T.Helper()
	return strings.Join(collect[string](s, "SELECT concat(rule_position, ':', coalesce(path, headers -> 0 ->> 'name')) FROM mesh.http_route_matches ORDER BY rule_position, position"), " ")
}

func TestEachPartOfARouteHasARow(t *testing.T) {
	t.Parallel()
	db, _ := newEdge(t)
	require.Equal(t, []string{
		`shop 0 - testers v2 0 `, `shop 1 90 - v1 0 `, `shop 1 10 - v2 1 `,
	}, collect[string](db, `SELECT concat_ws(' ', http_route, rule_position, coalesce(weight::text, '-'), coalesce(rule, '-'), name, position, '') FROM mesh.http_route_backends ORDER BY rule_position, position`))
	require.JSONEq(t, `[{"headers": [{"name": "x-user", "value": "tester"}]}, {"path": {"value": "/test"}}]`, value[string](db, "SELECT matches::text FROM mesh.http_route_backends WHERE rule = 'testers'"))
	require.Equal(t, "0:x-user 0:/test", db.matched())
	require.Equal(t, `1 0 RequestHeaderModifier {"remove": ["x-user"]}`, value[string](db, "SELECT concat_ws(' ', rule_position, position, type, request_header_modifier) FROM mesh.http_route_filters"))
	require.Equal(t, []string{"0 testers ", `1  {"request": "2s"}`}, collect[string](db, "SELECT concat(position, ' ', name, ' ', timeouts) FROM mesh.http_route_rules ORDER BY position"))

	db.Exec(`INSERT INTO mesh.grpc_routes (name, rules) VALUES ('cart', '[{"name": "all", "matches": [{"method": {"service": "shop.Cart", "method": "Add"}}], "filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "cart-v2", "port": 90}}}],
		"backendRefs": [{"group": "networking.istio.io", "kind": "ServiceEntry", "name": "cart", "namespace": "carts", "port": 90}]}]');
		INSERT INTO mesh.tls_routes (name, hostnames, rules) VALUES ('db', '{db.example.com}', '[{"backendRefs": [{"name": "db", "port": 5432}]}]');
		INSERT INTO mesh.tcp_routes (name, rules) VALUES ('queue', '[{"name": "all", "backendRefs": [{"name": "queue", "port": 5672, "weight": 1}]}]');
		INSERT INTO mesh.udp_routes (name, rules) VALUES ('dns', '[{"backendRefs": [{"name": "dns", "port": 53, "weight": 3}]}]');
		INSERT INTO mesh.listener_sets (name, parent_ref, listeners) VALUES ('more', '{"name": "edge"}', '[{"name": "tls", "port": 443, "protocol": "TLS", "hostname": "db.example.com", "tls": {"mode": "Passthrough"}}]')`)
	require.Equal(t, "cart all shop.Cart Add", value[string](db, "SELECT concat_ws(' ', grpc_route, rule, method_type, service, method) FROM mesh.grpc_route_matches"))
	require.Equal(t, "all networking.istio.io ServiceEntry cart carts 90", value[string](db, `SELECT concat_ws(' ', rule, "group", kind, name, spec_namespace, port, weight) FROM mesh.grpc_route_backends WHERE matches IS NOT NULL`))
	require.Equal(t, "RequestMirror", value[string](db, "SELECT type FROM mesh.grpc_route_filters WHERE rule = 'all'"))
	require.Equal(t, "all", value[string](db, "SELECT name FROM mesh.grpc_route_rules WHERE grpc_route = 'cart'"))
	require.Equal(t, "db 0 db 5432", value[string](db, "SELECT concat_ws(' ', tls_route, rule_position, rule, name, port, weight) FROM mesh.tls_route_backends"))
	require.Equal(t, "queue 0 all queue 5672 1", value[string](db, "SELECT concat_ws(' ', tcp_route, rule_position, rule, name, port, weight) FROM mesh.tcp_route_backends"))
	require.Equal(t, "dns 0 dns 53 3", value[string](db, "SELECT concat_ws(' ', udp_route, rule_position, rule, name, port, weight) FROM mesh.udp_route_backends"))
	require.Equal(t, "edge http 80 HTTP", value[string](db, "SELECT concat_ws(' ', gateway, name, port, protocol) FROM mesh.gateway_listeners"))
	require.Equal(t, "more tls db.example.com 443 TLS Passthrough", value[string](db, "SELECT concat_ws(' ', listener_set, name, hostname, port, protocol, tls ->> 'mode') FROM mesh.listener_set_listeners"))
}

func TestPartsOfRoutesAreWritten(t *testing.T) {
	t.Parallel()
	db, _ := newEdge(t)
	revision := value[int64](db, "SELECT max(revision) FROM mesh.revisions")
	db.Exec("BEGIN")
	require.Equal(t, "UPDATE 1", db.affected("UPDATE mesh.http_route_backends SET weight = 50 WHERE weight = 90"))
	require.Equal(t, "UPDATE 1", db.affected("UPDATE mesh.http_route_backends SET weight = 50 WHERE weight = 10"))
	db.Exec("COMMIT")
	require.Equal(t, "0.v2= 1.v1=50 1.v2=50", db.shares())
	require.Equal(t, revision+1, value[int64](db, "SELECT max(revision) FROM mesh.revisions"))
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.http_routes"), "what a transaction does is one change")

	// A part goes to the rule that is named, or to the only one.
	require.Equal(t, "0 1", value[string](db, "INSERT INTO mesh.http_route_backends (http_route, rule, name, port, weight) VALUES ('shop', 'testers', 'v3', 80, 0) RETURNING concat_ws(' ', rule_position, position)"))
	db.Exec("INSERT INTO mesh.http_route_matches (http_route, rule, position, path_type, path, method) VALUES ('shop', 'testers', 0, 'Exact', '/first', 'GET')")
	require.JSONEq(t, `{"path": {"type": "Exact", "value": "/first"}, "method": "GET"}`, value[string](db, "SELECT spec::text FROM mesh.http_route_matches WHERE path = '/first'"))
	db.Exec(`INSERT INTO mesh.http_route_filters (http_route, rule_position, type, request_mirror) VALUES ('shop', 1, 'RequestMirror', '{"backendRef": {"name": "v3", "port": 80}}')`)
	require.Equal(t, "RequestHeaderModifier RequestMirror", strings.Join(collect[string](db, "SELECT type FROM mesh.http_route_filters ORDER BY position"), " "))
	db.Exec(`UPDATE mesh.http_route_matches SET path_type = NULL, path = NULL, headers = '[{"name": "x-first", "value": "1"}]' WHERE path = '/first'`)
	require.Equal(t, "0:x-first 0:x-user 0:/test", db.matched())

	// Rules move with what they have, and parts move between rules.
	db.Exec("UPDATE mesh.http_route_rules SET position = 1 - position")
	require.Equal(t, "0.v1=50 0.v2=50 1.v2= 1.v3=0", db.shares())
	db.Exec("UPDATE mesh.http_route_backends SET rule_position = 0, weight = 1 WHERE name = 'v3'")
	require.Equal(t, "0.v1=50 0.v3=1 0.v2=50 1.v2=", db.shares())
	db.Exec("DELETE FROM mesh.http_route_rules WHERE name = 'testers'; DELETE FROM mesh.http_route_backends WHERE name = 'v3'; DELETE FROM mesh.http_route_filters")
	require.JSONEq(t, `{"hostnames": ["shop.example.com"], "parentRefs": [{"name": "edge"}], "rules": [{"timeouts": {"request": "2s"},
		"backendRefs": [{"name": "v1", "port": 80, "weight": 50}, {"name": "v2", "port": 80, "weight": 50}]}]}`, db.spec("http_routes", "shop"))
	db.Exec("INSERT INTO mesh.http_route_matches (http_route, path) VALUES ('shop', '/shop')")
	require.Equal(t, "0:/shop", db.matched())

	db.Exec(`INSERT INTO mesh.tls_routes (name, hostnames, rules) VALUES ('db', '{db.example.com}', '[{"backendRefs": [{"name": "db", "port": 5432}]}]')`)
	db.Exec(`INSERT INTO mesh.tls_route_backends (tls_route, name, spec_namespace, port, weight) VALUES ('db', 'db2', 'other', 5432, 3)`)
	require.JSONEq(t, `[{"backendRefs": [{"name": "db", "port": 5432}, {"name": "db2", "namespace": "other", "port": 5432, "weight": 3}]}]`, value[string](db, "SELECT rules::text FROM mesh.tls_routes"))

	db.Exec(`INSERT INTO mesh.gateway_listeners (gateway, name, port, protocol, hostname) VALUES ('edge', 'other', 8080, 'HTTP', '*.example.com')`)
	db.Exec(`UPDATE mesh.gateway_listeners SET allowed_routes = '{"namespaces": {"from": "All"}}' WHERE name = 'http'`)
	require.JSONEq(t, `[{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}, {"name": "other", "port": 8080, "protocol": "HTTP", "hostname": "*.example.com"}]`,
		value[string](db, "SELECT listeners::text FROM mesh.k8s_gateways"))
}

func TestViewsOfPartsOfRoutesRefuseInvalidChanges(t *testing.T) {
	t.Parallel()
	db, _ := newEdge(t)
	db.Exec(`INSERT INTO mesh.tcp_routes (name, rules) VALUES ('queue', '[{"name": "all", "backendRefs": [{"name": "queue", "port": 5672}]}]')`)
	db.Exec(`INSERT INTO mesh.tls_routes (name, hostnames, rules) VALUES ('plain', '{db.example.com}', '[{"backendRefs": [{"name": "db", "port": 5432}]}]')`)
	before := value[string](db, "SELECT jsonb_agg(spec ORDER BY kind)::text FROM mesh.resources")
	for _, c := range []struct{ sql, code, says, hint string }{
		{"INSERT INTO mesh.http_route_backends (http_route, name) VALUES ('shup', 'v3')", "23503", "there is no HTTPRoute default/shup", "make it first"},
		{"INSERT INTO mesh.http_route_backends (name) VALUES ('v3')", "23502", "the column http_route of mesh.http_route_backends must not be null", ""},
		{"INSERT INTO mesh.http_route_backends (http_route, name) VALUES ('shop', 'v3')", "23502", "it is not clear which rule of HTTPRoute default/shop the row belongs to", "set rule_position, or rule to the name of one"},
		{"INSERT INTO mesh.http_route_filters (http_route, rule, type) VALUES ('shop', 'x', 'CORS')", "23503", `there is no rule "x" in HTTPRoute default/shop`, "the rules that have a name are testers"},
		{"INSERT INTO mesh.http_route_filters (http_route, rule, type) VALUES ('shop', 'tester', 'CORS')", "23503", `there is no rule "tester" in HTTPRoute default/shop`, `did you mean "testers"?`},
		{"INSERT INTO mesh.tls_route_backends (tls_route, rule, name) VALUES ('plain', 'one', 'x')", "23503", `there is no rule "one" in TLSRoute default/plain`, "no rule of it has a name: set rule_position, which counts from 0"},
		{"INSERT INTO mesh.http_route_matches (http_route, rule_position, path) VALUES ('shop', 7, '/')", "23503", "HTTPRoute default/shop has no rule at spec.rules[7]", ""},
		{"UPDATE mesh.http_route_backends SET rule = 'x' WHERE weight = 90", "MS003", "the column rule of mesh.http_route_backends cannot be changed", "change it in mesh.http_route_rules"},
		{"UPDATE mesh.http_route_backends SET matches = '[]' WHERE rule = 'testers'", "MS003", "the column matches of mesh.http_route_backends cannot be changed", "change it in mesh.http_route_rules"},
		{"UPDATE mesh.tcp_route_backends SET rule = 'x'", "MS003", "the column rule of mesh.tcp_route_backends cannot be changed", "change it in mesh.tcp_routes"},
		{"UPDATE mesh.http_route_rules SET revision = 7", "MS003", "the column revision of mesh.http_route_rules cannot be changed", "set by itself"},
		{"UPDATE mesh.http_route_backends SET weight = -5 WHERE weight = 10", "23514", "HTTPRoute default/shop: spec.rules[1].backendRefs[1].weight: must be between 0 and 1000000, got -5", ""},
		{"UPDATE mesh.http_route_backends SET port = NULL WHERE weight = 10", "23514", "HTTPRoute default/shop: spec.rules[1].backendRefs[1].port: required field is missing", ""},
		{"UPDATE mesh.http_route_matches SET path = 'test' WHERE path = '/test'", "23514", "HTTPRoute default/shop: spec.rules[0].matches[1].path", "/"},
		{"UPDATE mesh.http_route_filters SET type = 'RequestRedirect'", "23514", "HTTPRoute default/shop: spec.rules[1].filters[0]", ""},
		{"DELETE FROM mesh.tcp_route_backends", "23514", "TCPRoute default/queue: spec.rules[0].backendRefs: required field is missing", ""},
		{"INSERT INTO mesh.gateway_listeners (gateway, name, port, protocol) VALUES ('edge', 'http', 8080, 'HTTP')", "23514", "Gateway default/edge: spec.listeners", ""},
	} {
		refused := db.Refused(c.sql)
		require.Equal(t, c.code, refused.Code, c.sql)
		require.Contains(t, refused.Message, c.says, c.sql)
		require.Contains(t, refused.Hint+refused.Message, c.hint, c.sql)
	}
	require.Equal(t, before, value[string](db, "SELECT jsonb_agg(spec ORDER BY kind)::text FROM mesh.resources"))
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.part_edits"))
}

func TestConcurrentWritersOfPartsOfRoutes(t *testing.T) {
	t.Parallel()
	observer, url := newEdge(t)
	first, second := connect(t, url), connect(t, url)
	const (
		ten    = "UPDATE mesh.http_route_backends SET weight = 20 WHERE weight = 10"
		before = `INSERT INTO mesh.http_route_rules (http_route, position, name, backend_refs) VALUES ('shop', 0, 'new', '[{"name": "v9", "port": 80}]')`
	)
	for _, c := range []struct{ name, first, second, code, shares, matched string }{
		{"two backends of a rule", "UPDATE mesh.http_route_backends SET weight = 80 WHERE weight = 90", ten, "<nil>", "0.v2= 1.v1=80 1.v2=20", ""},
		{"a rule before and a backend", before, ten, "<nil>", "0.v9= 1.v2= 2.v1=90 2.v2=20", ""},
		{"a rule like it before and a backend", strings.Replace(before, "'new'", "NULL", 1), ten, "<nil>", "0.v9= 1.v2= 2.v1=90 2.v2=20", ""},
		{"rules that change places and a backend", "UPDATE mesh.http_route_rules SET position = 1 - position", ten, "<nil>", "0.v1=90 0.v2=20 1.v2=", ""},
		{"rules that change places and a match", "UPDATE mesh.http_route_rules SET position = 1 - position", "UPDATE mesh.http_route_matches SET path = '/tests' WHERE path = '/test'", "<nil>", "", "1:x-user 1:/tests"},
		{"a rule before and a filter", before, "DELETE FROM mesh.http_route_filters", "<nil>", "0.v9= 1.v2= 2.v1=90 2.v2=10", ""},
		{"a match and another", "DELETE FROM mesh.http_route_matches WHERE path IS NULL", "UPDATE mesh.http_route_matches SET path = '/tests' WHERE path = '/test'", "<nil>", "", "0:/tests"},
		{"what another rule matches", "DELETE FROM mesh.http_route_matches", ten, "<nil>", "0.v2= 1.v1=90 1.v2=20", ""},
		{"the same match", "UPDATE mesh.http_route_matches SET method = 'GET' WHERE path = '/test'", "UPDATE mesh.http_route_matches SET path = '/tests' WHERE path = '/test'", "40001", "", "0:x-user 0:/test"},
		{"the same column", "UPDATE mesh.http_route_backends SET weight = 80 WHERE weight = 10", ten, "40001", "0.v2= 1.v1=90 1.v2=80", ""},
		{"the rule has gone", "DELETE FROM mesh.http_route_rules WHERE name IS NULL", ten, "40001", "0.v2=", ""},
		{"what the rule matches has changed", "INSERT INTO mesh.http_route_matches (http_route, rule_position, path) VALUES ('shop', 1, '/')", ten, "40001", "0.v2= 1.v1=90 1.v2=10", ""},
	} {
		observer.Exec("DELETE FROM mesh.resources; " + edge)
		first.Exec("BEGIN; " + c.first)
		done := second.blocked(observer, c.second)
		first.Exec("COMMIT")
		require.Equal(t, c.code, code(<-done), c.name)
		if c.shares != "" {
			require.Equal(t, c.shares, observer.shares(), c.name)
		}
		if c.matched != "" {
			require.Equal(t, c.matched, observer.matched(), c.name)
		}
	}
	require.Zero(t, value[int](observer, "SELECT count(*) FROM mesh_internal.part_edits"))
}

// The columns of parts are all that they have: a route that is made from them alone equals the one that
// they were read from, and written back as they are they change nothing.
func TestColumnsAreTheWholePart(t *testing.T) {
	t.Parallel()
	db, _ := newEdge(t)
	db.Exec(`INSERT INTO mesh.http_routes (name, parent_refs, hostnames, rules) SELECT 'copy', parent_refs, hostnames, '[{"name": "other"}]' FROM mesh.http_routes;
		DELETE FROM mesh.http_route_rules WHERE http_route = 'copy'; INSERT INTO mesh.http_route_rules (http_route, name, timeouts) SELECT 'copy', name, timeouts FROM mesh.http_route_rules ORDER BY position`)
	for _, view := range []string{"http_route_matches", "http_route_backends", "http_route_filters", "http_route_rules", "gateway_listeners"} {
		fields := strings.Join(collect[string](db, "SELECT quote_ident(name) FROM mesh_internal.editable_columns WHERE view = $1 AND path IS NOT NULL ORDER BY position", view), ", ")
		revision := value[int64](db, "SELECT max(revision) FROM mesh.revisions")
		db.Exec(fmt.Sprintf("UPDATE mesh.%s SET (%s) = ROW(%[2]s)", view, fields))
		require.Equal(t, revision, value[int64](db, "SELECT max(revision) FROM mesh.revisions"), view)
		if view != "http_route_rules" && view != "gateway_listeners" {
			db.Exec(fmt.Sprintf("INSERT INTO mesh.%s (http_route, rule_position, %s) SELECT 'copy', rule_position, %[2]s FROM mesh.%[1]s WHERE http_route = 'shop' ORDER BY position", view, fields))
		}
	}
	require.JSONEq(t, db.spec("http_routes", "shop"), db.spec("http_routes", "copy"))
}

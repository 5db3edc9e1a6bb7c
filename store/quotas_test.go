package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// entries are so many ServiceEntries of a namespace, in one statement.
func entries(namespace string, from, to int, padding string) string {
	return fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec, annotations) SELECT 'ServiceEntry', '%s', 'e' || n,
		jsonb_build_object('hosts', jsonb_build_array('e' || n || '.%[1]s'), 'resolution', 'DNS', 'ports', '[{"number": 80, "name": "http", "protocol": "HTTP"}]'::jsonb),
		jsonb_build_object('note', '%[2]s') FROM generate_series(%[3]d, %[4]d) n`, namespace, padding, from, to)
}

func limit(y tenancy, namespace, setting string, value int) {
	y.owner.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ($1, $2, $3) ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value", namespace, setting, fmt.Sprint(value))
}

// A resource has a size that it may have at most, for everybody; one that is larger from before may
// shrink.
func TestResourcesAreOfLimitedSize(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	put := func(size int) string {
		return fmt.Sprintf("UPDATE mesh.virtual_services SET hosts = '{a}', http = jsonb_build_array(jsonb_build_object('directResponse', "+
			"jsonb_build_object('status', 200, 'body', jsonb_build_object('string', repeat('x', %d))))) WHERE name = 'x'", size)
	}
	y.owner.Exec(put(1_000_000))
	refused := y.owner.Refused(put(1_100_000))
	require.Equal(t, "23514", refused.Code)
	require.Contains(t, refused.Message, "VirtualService a/x: is 1074 KiB large, and may be 1024 KiB at most")
	limit(y, "a", "resource_max_bytes", 20_000)
	require.Contains(t, y.owner.Refused(put(1_000_001)).Message, "and may be 20 KiB at most")
	y.owner.Exec(put(900_000))
	y.owner.Exec(put(100))
	require.Contains(t, y.tenant("tenant").Refused(put(21_000)).Message, "and may be 20 KiB at most")
}

// What a namespace has is limited for those who may not write everywhere: in number and in size,
// however well it compresses.
func TestNamespacesHaveQuotas(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	limit(y, "a", "namespace_max_resources", 10)
	limit(y, "a", "namespace_max_bytes", 300_000)
	tenant.Exec(entries("a", 1, 9, ""))
	refused := tenant.Refused(entries("a", 10, 10, ""))
	require.Equal(t, "MS008", refused.Code)
	require.Equal(t, `the namespace "a" would have 11 resources, and may have 10`, refused.Message)
	require.Contains(t, refused.Hint, "namespace_max_resources")
	y.owner.Exec(entries("a", 10, 12, ""))
	tenant.Exec("UPDATE mesh.service_entries SET labels = '{\"a\": \"b\"}'") // more than it may have is no reason not to be changed
	tenant.Exec("DELETE FROM mesh.service_entries WHERE name = 'e12'")
	y.owner.Exec("DELETE FROM mesh.service_entries WHERE namespace = 'a'")

	refused = tenant.Refused(entries("a", 1, 3, strings.Repeat("x", 100_000)))
	require.Equal(t, "MS008", refused.Code)
	require.Contains(t, refused.Message, `the namespace "a" would have 328 KiB of resources, as proxies have them, and may have 293 KiB`)
	tenant.Exec(entries("a", 1, 2, strings.Repeat("x", 100_000)))
	require.Equal(t, "a 3 10", value[string](tenant, "SELECT concat_ws(' ', namespace, resources, max_resources) FROM mesh.quotas"))

	for _, sql := range []string{
		"INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'registered_machines_max', '9')", "UPDATE mesh.settings SET value = '1000' WHERE namespace = 'a'",
		"SELECT mesh.reset_setting('namespace_max_resources', 'a')",
	} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
	tenant.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'strict_references', 'on')")
	require.True(t, value[bool](tenant, "SELECT mesh.reset_setting('strict_references', 'a')"))
}

// What a few bytes make proxies hold counts as what proxies hold, whichever way it is multiplied,
// and however little a change grows by.
func TestQuotasCountWhatProxiesMakeOfResources(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	limit(y, "a", "namespace_max_bytes", 1<<20)
	entry := func(name string, hosts, ports int, more string) string {
		return fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'ServiceEntry', 'a', '%s', jsonb_build_object('resolution', 'STATIC',
			'hosts', (SELECT jsonb_agg('%[1]s-' || n || '.a') FROM generate_series(1, %[2]d) n),
			'ports', (SELECT jsonb_agg(jsonb_build_object('number', n, 'name', 'http-' || n, 'protocol', 'HTTP')) FROM generate_series(1, %[3]d) n)) || '%[4]s'`, name, hosts, ports, more)
	}
	rule := func(name, host string, subsets int) string {
		return fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'DestinationRule', 'a', '%s', jsonb_build_object('host', '%s',
			'subsets', (SELECT jsonb_agg(jsonb_build_object('name', 's' || n)) FROM generate_series(1, %d) n))`, name, host, subsets)
	}
	multiplied := func(how, sql string) {
		t.Helper()
		require.Contains(t, tenant.Refused(sql).Message, "of resources, as proxies have them, and may have 1024 KiB", how)
	}
	workloads := `INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'WorkloadEntry', 'a', 'w' || n,
		jsonb_build_object('address', '10.0.0.' || n, 'labels', '{"app": "w"}'::jsonb) FROM generate_series(1, 50) n`
	selects := `{"workloadSelector": {"labels": {"app": "w"}}}`

	multiplied("hosts with ports", entry("e", 20, 10, "{}"))
	multiplied("endpoints of hosts", entry("e", 20, 2, `{"endpoints": [`+strings.Repeat(`{"address": "10.0.0.1"}, `, 1000)+`{"address": "10.0.0.2"}]}`))
	multiplied("routes of hosts", fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'VirtualService', 'a', 'v', jsonb_build_object(
		'hosts', (SELECT jsonb_agg('v' || n || '.a') FROM generate_series(1, 20) n),
		'http', jsonb_build_array(jsonb_build_object('directResponse', jsonb_build_object('status', 200, 'body', jsonb_build_object('string', '%s')))))`, strings.Repeat("x", 60_000)))
	rules := func(name string, hostnames, parents, matches, size int) string {
		return fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'HTTPRoute', 'a', '%s', jsonb_build_object(
			'hostnames', (SELECT jsonb_agg('r' || n || '.a') FROM generate_series(1, %d) n), 'parentRefs', (SELECT jsonb_agg(jsonb_build_object('name', 'edge', 'port', n)) FROM generate_series(1, %d) n),
			'rules', jsonb_build_array(jsonb_build_object('matches', (SELECT jsonb_agg(jsonb_build_object('path', jsonb_build_object('value', '/' || n))) FROM generate_series(1, %d) n),
				'filters', jsonb_build_array(jsonb_build_object('type', 'RequestHeaderModifier', 'requestHeaderModifier', jsonb_build_object('set', jsonb_build_array(jsonb_build_object('name', 'x', 'value', repeat('x', %d)))))))))`,
			name, hostnames, parents, matches, size)
	}
	multiplied("rules of hostnames at parents", rules("r", 16, 30, 1, 3000))
	multiplied("a rule of many matches", rules("r", 10, 1, 60, 3000))
	multiplied("hostnames at parents, each with little", `INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'TLSRoute', 'a', 'r', jsonb_build_object(
		'hostnames', (SELECT jsonb_agg('r' || n || '.a') FROM generate_series(1, 1024) n), 'parentRefs', '[{"name": "one"}, {"name": "two"}]'::jsonb, 'rules', '[{"backendRefs": [{"name": "x", "port": 1}]}]'::jsonb)`)
	multiplied("draws among backends of UDP", `INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'UDPRoute', 'a', 'r', jsonb_build_object(
		'parentRefs', (SELECT jsonb_agg(jsonb_build_object('name', 'edge', 'port', n)) FROM generate_series(1, 5) n),
		'rules', jsonb_build_array(jsonb_build_object('backendRefs', (SELECT jsonb_agg(jsonb_build_object('name', 'x' || n, 'port', 1)) FROM generate_series(1, 15) n))))`)
	tenant.Exec(rules("r", 1, 1, 1, 3000))
	require.Equal(t, int64(4096), value[int64](tenant, "SELECT mesh.written_out(kind, spec, labels, annotations) FROM mesh.resources WHERE name = 'r'"), "what is written once is held once")
	multiplied("a match that is added", "INSERT INTO mesh.http_route_matches (namespace, http_route, path) SELECT 'a', 'r', '/' || n || repeat('x', 1000) FROM generate_series(2, 64) n; UPDATE mesh.http_routes SET hostnames = ARRAY(SELECT 'r' || n || '.a' FROM generate_series(1, 16) n) WHERE name = 'r'")
	tenant.Exec("DELETE FROM mesh.http_routes WHERE name = 'r'")
	multiplied("filters of extensions", `INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'WasmPlugin', 'a', 'p' || n, '{"url": "a"}'::jsonb FROM generate_series(1, 20) n`)
	tenant.Exec(entry("e", 5, 10, "{}"))
	multiplied("subsets of a host's ports", rule("d", "e-1.a", 20))
	multiplied("subsets of all hosts", rule("d", "*.a", 5))
	tenant.Exec(rule("d", "other.a", 5))
	multiplied("a rule that becomes one of all hosts", `UPDATE mesh.resources SET spec = spec || '{"host": "*.a"}' WHERE name = 'd'`)
	tenant.Exec("DELETE FROM mesh.destination_rules WHERE name = 'd'")
	tenant.Exec("DELETE FROM mesh.service_entries WHERE name = 'e'")
	tenant.Exec(workloads)
	multiplied("endpoints that many services select", entry("e", 8, 8, selects))
	tenant.Exec(entry("e", 8, 8, `{"workloadSelector": {"labels": {"app": "none"}}}`))
	multiplied("a service that comes to select", `UPDATE mesh.resources SET spec = spec || '`+selects+`' WHERE name = 'e'`)
	multiplied("workloads that come to be selected", `UPDATE mesh.resources SET labels = '{"app": "none"}', spec = spec - 'labels' WHERE kind = 'WorkloadEntry'`)
	multiplied("workloads of a network that is selected", `UPDATE mesh.resources SET spec = spec || '{"workloadSelector": {"labels": {"topology.istio.io/network": "east"}}}' WHERE name = 'e';
		UPDATE mesh.resources SET spec = spec || '{"network": "east"}' WHERE kind = 'WorkloadEntry'`)
	tenant.Exec("DELETE FROM mesh.service_entries WHERE name = 'e'")

	tenant.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'EnvoyFilter', 'a', 'f' || n, '{}' FROM generate_series(1, 100) n`)
	grow := 0
	for grow < 200 && tenant.Tries(fmt.Sprintf(`UPDATE mesh.resources SET annotations = jsonb_build_object('a', repeat('x', 30000)) WHERE name = 'f%d'`, grow%100+1)) {
		grow++
	}
	require.Less(t, grow, 25, "it grows past the quota by changes that are small as Postgres stores them")
}

// The history keeps every change for months, so what tenants add to it in a day is limited.
func TestWhatIsWrittenInADayIsLimited(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	limit(y, "a", "namespace_max_daily_bytes", 200_000)
	again := func(n int) string {
		return fmt.Sprintf(`UPDATE mesh.virtual_services SET annotations = jsonb_build_object('n', '%d', 'text', repeat('x', 30000)) WHERE name = 'x'`, n)
	}
	n := 0
	for n < 10 && tenant.Tries(again(n)) {
		n++
	}
	require.Equal(t, 3, n, "30 kB, and then 60 kB each: what was, and what is")
	refused := tenant.Refused(again(n))
	require.Equal(t, "MS008", refused.Code)
	require.Contains(t, refused.Message, `the changes of the namespace "a" would have added 208 KiB to the history today, and may add 195 KiB`)
	require.Contains(t, refused.Hint, "namespace_max_daily_bytes")
	require.Positive(t, value[int64](tenant, "SELECT written_today FROM mesh.quotas"))
	y.owner.Exec(again(n)) // others are not limited, and count for nobody
	y.owner.Exec("UPDATE mesh_internal.written SET day = day - 1")
	require.Zero(t, value[int64](tenant, "SELECT written_today FROM mesh.quotas"))
	tenant.Exec(again(n + 1))

	tenant.Exec("SET mesh.message = '" + strings.Repeat("x", 70_000) + "'")
	require.Contains(t, tenant.Refused(again(0)).Message, "the message of this change is 68 KiB large")
}

// Callers of the API that are limited to namespaces are as limited as tenants.
func TestQuotasHoldForLimitedCallers(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	limit(y, "", "namespace_max_resources", 1)
	s := openURL(t, y.owner.Conn.Config().ConnString())
	apply := resources.Apply{Upserts: []resources.Upsert{{Key: vs(t, "one"), Spec: virtualService("b")}, {Key: vs(t, "two"), Spec: virtualService("b")}}, Limited: true}
	for _, dry := range []bool{true, false} {
		apply.DryRun = dry
		_, err := resources.New(s).Apply(t.Context(), apply)
		var refused *store.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Reason, "would have 2 resources, and may have 1")
	}
	apply.Limited = false
	_, err := resources.New(s).Apply(t.Context(), apply)
	require.NoError(t, err)
}

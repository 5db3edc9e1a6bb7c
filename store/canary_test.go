package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

// What belongs to the namespace b has a canary in it, wherever people can write one. Each table,
// view and function of the schema is found in the catalog, so one that is new and forgets to look
// at who asks fails here.
const canary = "canary"

// newAviary adds resources of all kinds to b, and something for every view to show.
func newAviary(t *testing.T) tenancy {
	t.Helper()
	y := newTenancy(t)
	y.owner.Exec("SET mesh.author = 'canary'; SET mesh.message = 'the canary sings'; SET application_name = 'canary'")
	put := func(kind, name, spec string) {
		y.owner.Exec(`INSERT INTO mesh.resources (kind, api_group, namespace, name, labels, annotations, spec)
			SELECT kind, api_group, 'b', $2, '{"canary": "canary"}', '{"canary": "canary"}', $3
			FROM mesh.kinds WHERE kind || '.' || api_group LIKE $1 || '.%' ORDER BY api_group DESC LIMIT 1`, kind, name, spec)
	}
	put("VirtualService", "hidden", `{"hosts": ["canary.example.com"], "gateways": ["canary"],
		"http": [{"name": "canary", "route": [{"destination": {"host": "canary.example.com", "subset": "canary"}, "weight": 100}]}],
		"tls": [{"match": [{"sniHosts": ["canary.example.com"], "port": 443}], "route": [{"destination": {"host": "canary.example.com"}}]}],
		"tcp": [{"route": [{"destination": {"host": "canary.example.com"}}]}]}`)
	put("DestinationRule", "hidden", `{"host": "canary.example.com", "subsets": [{"name": "canary", "labels": {"version": "canary"}}]}`)
	put("ServiceEntry", "hidden", `{"hosts": ["canary.example.com"], "location": "MESH_INTERNAL", "resolution": "STATIC",
		"ports": [{"number": 80, "name": "http-canary", "protocol": "HTTP"}],
		"endpoints": [{"address": "10.0.0.1", "labels": {"version": "canary"}}]}`)
	put("Gateway", "hidden", `{"selector": {"app": "canary"},
		"servers": [{"name": "canary", "port": {"number": 80, "name": "http-canary", "protocol": "HTTP"}, "hosts": ["canary.example.com"]}]}`)
	const listeners = `"listeners": [{"name": "canary", "port": 80, "protocol": "HTTP"}]`
	put("Gateway.gateway.networking", "hidden", `{"gatewayClassName": "canary", `+listeners+`}`)
	put("ListenerSet", "hidden", `{"parentRef": {"name": "canary"}, `+listeners+`}`)
	const filters = `"filters": [{"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["canary"]}}]`
	const backends = `"backendRefs": [{"name": "canary", "port": 80}]`
	put("HTTPRoute", "hidden", `{"parentRefs": [{"name": "canary"}], "rules": [{"name": "canary", "matches": [{"path": {"value": "/canary"}}], `+filters+`, `+backends+`}]}`)
	put("GRPCRoute", "hidden", `{"rules": [{"name": "canary", "matches": [{"method": {"service": "canary"}}], `+filters+`, `+backends+`}]}`)
	put("TLSRoute", "hidden", `{"hostnames": ["canary.example.com"], "rules": [{`+backends+`}]}`)
	put("TCPRoute", "hidden", `{"rules": [{`+backends+`}]}`)
	put("UDPRoute", "hidden", `{"rules": [{`+backends+`}]}`)
	put("PeerAuthentication", "canary", `{"mtls": {"mode": "PERMISSIVE"}}`)
	put("Sidecar", "canary", `{"egress": [{"hosts": ["*/*"]}]}`)
	y.owner.Exec(`INSERT INTO mesh.settings (namespace, name, value) VALUES ('b', 'strict_references', 'off')`)
	y.owner.Exec(`INSERT INTO mesh.readers (identity) VALUES ('spiffe://mesh/canary');
		SELECT mesh.create_token('canary', sha256('canary'), '{admin}')`)
	y.owner.Exec(`INSERT INTO mesh.secrets (namespace, name, labels, data) VALUES ('b', 'canary', '{"canary": "canary"}', mesh.secret_data('{"canary": "canary"}'))`)
	y.owner.Exec(`SELECT mesh_internal.record_certificates('canary', ARRAY[gen_random_uuid()], ARRAY[now()], ARRAY[NULL], '{canary}', '{spiffe://mesh/ns/b/sa/canary}', '{canary}',
			'{canary}', ARRAY[now() + interval '1 hour'], '{canary}', '{canary}', '{canary}', ARRAY[sha256('canary')], ARRAY[interval '1 ms']);
		SELECT mesh.revoke_identity('b', 'canary', 'canary'), mesh.create_join_token('canary', sha256('canary'), 'b', 'canary', NULL, NULL, 1, now() + interval '1 hour')`)
	y.owner.Exec(`SELECT mesh_internal.register_workloads('00000000-0000-0000-0000-000000000001', mesh_internal.open_workload_session('00000000-0000-0000-0000-000000000001', 'canary', 'canary'), 1,
		'[{"namespace": "b", "workload_group": "canary", "machine": "canary", "state": "here", "since": 1, "service_account": "canary", "enrolment": "canary", "address": "10.0.0.1", "network": "canary",
		"locality": "canary", "labels": {"canary": "canary"}, "ports": {"canary": 80}, "service_labels": {}, "weight": 1, "health": "unhealthy", "detail": "canary"}]')`)
	y.owner.Exec(`SELECT mesh_internal.begin_report(mesh_internal.keep_reports('canary'), 'canary');
		SELECT mesh_internal.take_report(r.keeper, r.id, 1, 1, '[{"stream": 1, "state": "refused", "sent": 1, "runs": 1, "node": "canary", "proxy": "canary", "namespace": "b", "service_account": "canary",
			"role": "canary", "labels": {"canary": "canary"}, "locality": "canary", "network": "canary", "addresses": ["canary"], "envoy": "canary", "agent": "canary",
			"protocol": "canary", "connected": "2020-01-01Z", "refused": 1, "refusals": [{"type_url": "canary", "resource": "canary", "reason": "canary", "since": "2020-01-01Z",
				"sources": [{"api_group": "networking.istio.io", "kind": "VirtualService", "namespace": "b", "name": "hidden"}]}]}]', '{}',
			jsonb_build_array(jsonb_build_object('revision', mesh.newest_revision(), 'after', 0, 'began', now(), 'parts',
				'[{"namespace": "b", "concerned": 1, "ran": 1, "refused": 0, "away": 0, "took": [1000]}]'::jsonb)),
			'[{"api_group": "networking.istio.io", "kind": "VirtualService", "namespace": "b", "name": "hidden", "everyone": true, "circles": []}]',
			'[{"api_group": "networking.istio.io", "kind": "VirtualService", "namespace": "b", "name": "hidden", "path": "canary", "code": "left-out", "message": "canary"}]', '{1}', '{1000}')
		FROM mesh_internal.reports r`)
	y.owner.Exec(`SELECT mesh_internal.claim_registry(k.id, 'canary', 1, true) FROM mesh_internal.report_keepers k`)
	y.owner.Exec(`SELECT mesh_internal.mirror_registry(k.id, 'canary', true, now(), 'canary', '[{"entry": "canary", "reason": "canary"}]', 1,
		'[{"kind": "ServiceEntry", "api_group": "networking.istio.io", "namespace": "b", "name": "canary.web", "version": "canary", "labels": {"canary": "canary"}, "annotations": {"canary": "canary"},
			"spec": {"hosts": ["canary.web"], "ports": [{"name": "canary", "number": 80}], "endpoints": [{"address": "canary"}]}}]', '[]') FROM mesh_internal.report_keepers k`)
	unconfirmed := func(label string) {
		y.owner.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour'); UPDATE mesh.resources SET labels = labels || '{\"canary\": \"" + label + "\"}' WHERE namespace = 'b'; COMMIT")
	}
	unconfirmed("first")
	unconfirmed("second")
	y.owner.Exec("UPDATE mesh_internal.deadlines SET deadline = now() WHERE revision = (SELECT min(revision) FROM mesh_internal.deadlines)")
	require.Equal(t, "conflict", value[string](y.owner, "SELECT state FROM mesh.revert_overdue()"))
	// Of the kinds that are left a spec that no rule would pass.
	y.owner.Exec(`ALTER TABLE mesh.resources DISABLE TRIGGER USER;
		INSERT INTO mesh.resources (kind, api_group, namespace, name, labels, annotations, spec)
		SELECT kind, api_group, CASE WHEN namespaced THEN 'b' ELSE '' END, 'odd-canary', '{"canary": "canary"}', '{}', '{"canary": ["canary"]}' FROM mesh.kinds;
		ALTER TABLE mesh.resources ENABLE TRIGGER USER`)
	y.owner.Exec("SELECT mesh.grant_hosts('b', 'canary.example')")
	y.owner.Exec("RESET mesh.author; RESET mesh.message; RESET application_name")
	return y
}

// silent are the views and tables that tenants may read and that have nothing of b, for they are
// about the mesh.
var silent = map[string]bool{
	"grants": true, "known_settings": true, "kinds": true, "schema_version": true, "schema_types": true, "schema_fields": true, "schema_parts": true,
	"running_transaction": true, "formats": true, "rules": true, "unsupported": true, "authorities": true, "editable_views": true, "editable_columns": true,
	"quotas": true, "blockers": true, "default_deny": true, "sink_status": true, "view_keys": true,
}

// leak is a function that costs nothing, so the planner calls it first where it may, and that tells
// what it was given.
const leak = `CREATE FUNCTION pg_temp.leak(t text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.0000001 AS $$
	BEGIN IF t LIKE '%canary%' THEN RAISE EXCEPTION 'leaked %', t; END IF; RETURN true; END $$`

func TestNobodySeesWhatBelongsToOthers(t *testing.T) {
	t.Parallel()
	y := newAviary(t)
	tenant := y.tenant("tenant")
	tenant.Exec(leak)
	for _, relation := range relations(y.owner, "rvmpf") {
		if !value[bool](tenant, "SELECT has_table_privilege($1, 'SELECT')", relation) {
			continue
		}
		singing := value[bool](y.owner, fmt.Sprintf("SELECT coalesce(bool_or(r::text LIKE '%%canary%%'), false) FROM %s r", relation))
		_, name, _ := strings.Cut(relation, ".")
		require.Equal(t, !silent[name], singing, "%s: let the owner see the canary in it, or say that there can be none", relation)
		tenant.Exec(fmt.Sprintf("SELECT r::text FROM %s r WHERE pg_temp.leak(r::text)", relation))
	}
}

func TestNobodyChangesWhatBelongsToOthers(t *testing.T) {
	t.Parallel()
	y := newAviary(t)
	for _, tenant := range []session{y.tenant("writer"), y.tenant("reader", [2]string{"b", "read"}, [2]string{"", "read"})} {
		before := y.state()
		for _, relation := range relations(y.owner, "rvmpf") {
			var done []string
			for _, sql := range y.attempts(relation) {
				if _, err := tenant.Conn.Exec(t.Context(), sql); err == nil {
					done = append(done, sql)
				}
			}
			if len(done) > 0 {
				require.Equal(t, before, y.state(), "after %s", strings.Join(done, "; "))
			}
		}
		require.Equal(t, before, y.state())
	}
}

// attempts are statements that would change what belongs to b.
func (y tenancy) attempts(relation string) []string {
	y.owner.T.Helper()
	columns := y.columns(relation)
	var all, sql []string
	for _, column := range columns {
		all = append(all, column+" = "+column)
	}
	sql = append(sql, fmt.Sprintf("UPDATE %s SET %s", relation, strings.Join(all, ", ")))
	for column, value := range map[string]string{"namespace": "'b'", "name": "'mine'", "labels": "'{}'", "spec": "'{}'", "value": "'on'", "weight": "1"} {
		if slices.Contains(columns, column) {
			sql = append(sql, fmt.Sprintf("UPDATE %s SET %s = %s", relation, column, value))
		}
	}
	if slices.Contains(columns, "namespace") {
		sql = append(sql, fmt.Sprintf("UPDATE %s SET namespace = 'a' WHERE namespace = 'b'", relation))
	}
	sql = append(sql, "DELETE FROM "+relation, "TRUNCATE "+relation, fmt.Sprintf("INSERT INTO %s SELECT * FROM %[1]s", relation))
	for _, row := range y.singing(relation) {
		row = strings.ReplaceAll(strings.ReplaceAll(row, "hidden", "found"), "'", "''")
		sql = append(sql, fmt.Sprintf("INSERT INTO %s SELECT * FROM jsonb_populate_record(NULL::%[1]s, '%s')", relation, row))
	}
	return sql
}

func (y tenancy) columns(relation string) []string {
	return collect[string](y.owner, "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped", relation)
}

// singing are rows of b, as JSON.
func (y tenancy) singing(relation string) []string {
	return collect[string](y.owner, fmt.Sprintf("SELECT to_jsonb(r)::text FROM %s r WHERE r::text LIKE '%%canary%%' LIMIT 3", relation))
}

// state is a digest, a table, of all that does not belong to a. Registries are left out, which
// nobody may write.
func (y tenancy) state() map[string]string {
	y.owner.T.Helper()
	digests := map[string]string{}
	for _, table := range collect[string](y.owner, `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND relkind = 'r'
			AND relname <> ALL (mesh_internal.public_tables())`) {
		digests[table] = value[string](y.owner, fmt.Sprintf(`SELECT coalesce(md5(string_agg(r::text, ' ' ORDER BY r::text)), '')
			FROM %s r, LATERAL to_jsonb(r) AS row (content)
			WHERE coalesce(content ->> 'namespace', '') <> 'a' AND coalesce(content ->> 'author', 'canary') LIKE '%%canary%%'`, table))
	}
	return digests
}

// Every function that can be called with words and numbers is called with those that would find
// what belongs to b.
func TestFunctionsTellNobodyWhatBelongsToOthers(t *testing.T) {
	t.Parallel()
	y := newAviary(t)
	role := y.role("tenant")
	y.grant(role, "a", "write")
	tenant := session{storetest.ConnectHearing(t, y.login(role), func(n *pgconn.Notice) { require.NotContains(t, fmt.Sprintf("%+v", *n), canary) })}
	before := y.state()
	for _, call := range y.calls() {
		for _, told := range tenant.allTexts(call) {
			require.NotContains(t, told, canary, call)
		}
	}
	require.Equal(t, before, y.state())
}

// calls are queries that call each function.
func (y tenancy) calls() []string {
	return collect[string](y.owner, `
		SELECT format('SELECT r::text FROM %s.%I(%s) r', p.pronamespace::regnamespace, p.proname, (
			SELECT coalesce(string_agg(CASE WHEN p.provariadic <> 0 AND t.i = p.pronargs THEN 'VARIADIC ' ELSE '' END || CASE t.name
					WHEN 'kind' THEN quote_literal('VirtualService') WHEN 'namespace' THEN quote_literal('b') WHEN 'name' THEN quote_literal('hidden')
					WHEN 'kinds' THEN 'NULL::text[]' WHEN 'names' THEN 'NULL::text[]'
					WHEN 'namespaces' THEN CASE v.n WHEN 1 THEN $$'{b}'::text[]$$ ELSE 'NULL::text[]' END
					WHEN 'role' THEN 'session_user::text' WHEN 'privilege' THEN quote_literal('write')
					ELSE CASE format_type(t.type, NULL)
						WHEN 'text' THEN quote_literal('b') WHEN 'text[]' THEN $$'{b}'::text[]$$ WHEN 'jsonb' THEN $$'{}'::jsonb$$
						WHEN 'bigint' THEN v.n::text WHEN 'integer' THEN v.n::text WHEN 'boolean' THEN 'true' WHEN 'interval' THEN $$'1 hour'::interval$$
						WHEN 'timestamp with time zone' THEN CASE v.n WHEN 1 THEN 'now()' ELSE $$(now() - interval '1 hour')$$ END
						ELSE 'NULL' END || '::' || format_type(t.type, NULL) END, ', ' ORDER BY t.i), '')
			FROM unnest(p.proargtypes::oid[], p.proargnames[1:p.pronargs]) WITH ORDINALITY t (type, name, i)))
		FROM pg_proc p, (VALUES (1), (2), (9)) v (n)
		WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND p.prorettype <> 'trigger'::regtype
			AND (v.n = 1 OR p.proargtypes::oid[] && '{int4,int8,timestamptz}'::regtype[]::oid[]) ORDER BY p.oid, v.n`)
}

// allTexts runs a query, and returns its rows or all that its error says.
func (s session) allTexts(sql string) []string {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), sql)
	require.NoError(s.T, err, sql)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil {
		return []string{fmt.Sprintf("%+v", err)}
	}
	var told []string
	for _, text := range texts {
		if text != nil {
			told = append(told, *text)
		}
	}
	return told
}

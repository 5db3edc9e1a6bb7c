package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// affected runs SQL and returns its command tag.
func (s session) affected(sql string, args ...any) string {
	s.T.Helper()
	tag, err := s.Conn.Exec(context.Background(), sql, args...)
	require.NoError(s.T, err, sql)
	return tag.String()
}

// spec is the spec of a resource, as jsonb writes it.
func (s session) spec(view, name string) string {
	s.T.Helper()
	return value[string](s, fmt.Sprintf("SELECT spec::text FROM mesh.%s WHERE name = $1", view), name)
}

// blocked runs SQL in the background and returns when it waits for a lock. Its error comes from the
// channel.
func (s session) blocked(observer session, sql string) <-chan error {
	s.T.Helper()
	done := make(chan error, 1)
	pid := s.Conn.PgConn().PID()
	go func() {
		_, err := s.Conn.Exec(context.Background(), sql)
		done <- err
	}()
	for value[bool](observer, "SELECT cardinality(pg_blocking_pids($1)) = 0", pid) {
		select {
		case err := <-done:
			require.Fail(s.T, "it did not wait", "%s: %v", sql, err)
		default:
		}
	}
	return done
}

func code(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return fmt.Sprint(err)
}

func TestViewPerKind(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	names := collect[string](db, `SELECT mesh_internal.view_name(k) FROM mesh.kinds k WHERE to_regclass('mesh.' || mesh_internal.view_name(k)) IS NOT NULL ORDER BY 1`)
	require.Equal(t, []string{
		"authorization_policies", "backend_tls_policies", "destination_rules", "envoy_filters", "gateway_classes", "gateways", "grpc_routes",
		"http_routes", "inference_pools", "k8s_gateways", "listener_sets", "mesh_configs", "mesh_networks", "peer_authentications", "proxy_configs",
		"reference_grants", "request_authentications", "service_entries", "sidecars", "tcp_routes", "telemetries", "tls_routes", "traffic_extensions",
		"udp_routes", "virtual_services", "wasm_plugins", "workload_entries", "workload_groups", "x_backend_traffic_policies", "x_backends",
	}, names)
	require.Len(t, names, len(kinds.All()))
	columns := func(view string) []string {
		return collect[string](db, `SELECT column_name || ' ' || data_type || CASE data_type WHEN 'ARRAY' THEN ' ' || udt_name ELSE '' END
			FROM information_schema.columns WHERE table_schema = 'mesh' AND table_name = $1 ORDER BY ordinal_position`, view)
	}
	require.Equal(t, []string{
		"namespace text", "name text", "address text", "ports jsonb", "spec_labels jsonb", "network text", "locality text", "weight numeric",
		"service_account text", "labels jsonb", "annotations jsonb", "spec jsonb", "revision bigint", "generation bigint",
		"created_at timestamp with time zone", "updated_at timestamp with time zone",
	}, columns("workload_entries"))
	require.Subset(t, columns("virtual_services"), []string{"hosts ARRAY _text", "export_to ARRAY _text", "http jsonb"})
	require.Subset(t, columns("mesh_configs"), []string{"proxy_listen_port numeric", "connect_timeout text", "enable_tracing boolean", "mesh_mtls jsonb"})
	require.Empty(t, collect[string](db, `SELECT attrelid::regclass || '.' || attname FROM pg_attribute a JOIN mesh_internal.editable_views v ON attrelid = ('mesh.' || v.view)::regclass
		WHERE attnum > 0 AND col_description(attrelid, attnum) IS NULL OR obj_description(attrelid, 'pg_class') IS NULL`), "everything has a comment")
}

// The columns together are the whole spec, of every kind: written back as they are they change
// nothing, and a resource made from them alone equals the one they were read from.
func TestColumnsAreTheWholeSpec(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	data, err := os.ReadFile("../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	documents, err := kinds.Parse("every-kind.yaml", data)
	require.NoError(t, err)
	for _, d := range documents {
		r := d.Resource
		view := value[string](db, "SELECT mesh_internal.view_name(k) FROM mesh.kinds k WHERE kind = $1 AND api_group = $2", r.Kind.Name, r.Kind.Group)
		db.Exec(fmt.Sprintf("INSERT INTO mesh.%s (namespace, name, spec) VALUES ($1, $2, $3)", view), r.Namespace, r.Name, d.Spec)
		revision := value[int64](db, "SELECT max(revision) FROM mesh.revisions")
		fields := collect[string](db, "SELECT quote_ident(name) FROM mesh_internal.editable_columns WHERE view = $1 AND path IS NOT NULL ORDER BY position", view)
		all := strings.Join(fields, ", ")
		for _, f := range fields {
			db.Exec(fmt.Sprintf("UPDATE mesh.%s SET %s = %s WHERE name = $1", view, f, f), r.Name)
		}
		require.Equal(t, revision, value[int64](db, "SELECT max(revision) FROM mesh.revisions"), "%s: nothing was changed", view)
		if r.Kind.Bare {
			continue // the mesh has one of each
		}
		db.Exec(fmt.Sprintf("INSERT INTO mesh.%s (namespace, name, %s) SELECT namespace, name || '-copy', %s FROM mesh.%s WHERE name = $1", view, all, all, view), r.Name)
		require.Empty(t, cmp.Diff(db.spec(view, r.Name), db.spec(view, r.Name+"-copy")), view)
	}
}

func TestViewsAreWrittenLikeTables(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	require.JSONEq(t, `{"http": [{"route": [{"weight": 0, "destination": {"host": "b"}}]}], "hosts": ["a", "b"], "gateways": ["g"]}`,
		value[string](db, `INSERT INTO mesh.virtual_services (name, hosts, gateways, http)
			VALUES ('x', '{a,b}', '{g}', '[{"route": [{"destination": {"host": "b"}, "weight": 0}]}]') RETURNING spec::text`))
	require.Equal(t, "default {} 1 1", value[string](db, "SELECT concat_ws(' ', namespace, labels, revision, generation) FROM mesh.virtual_services"))

	// Only what changes is written, and NULL removes.
	require.Equal(t, "UPDATE 1", db.affected(`UPDATE mesh.virtual_services SET export_to = '{}', gateways = NULL, labels = '{"a": "b"}' WHERE name = 'x'`))
	require.JSONEq(t, `{"http": [{"route": [{"weight": 0, "destination": {"host": "b"}}]}], "hosts": ["a", "b"], "exportTo": []}`, db.spec("virtual_services", "x"))

	// First the spec, then the columns.
	db.Exec("DELETE FROM mesh.virtual_services")
	db.Exec("INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'a')")
	db.Exec(`UPDATE mesh.destination_rules SET host = 'c', spec = '{"host": "never", "exportTo": ["."]}' WHERE name = 'x'`)
	require.JSONEq(t, `{"host": "c", "exportTo": ["."]}`, db.spec("destination_rules", "x"))
	require.Equal(t, "c|", value[string](db, `UPDATE mesh.destination_rules SET spec = spec - 'exportTo' RETURNING host || '|' || coalesce(export_to::text, '')`))

	// A spec that is inserted is completed by the columns that are not NULL.
	db.Exec(`INSERT INTO mesh.destination_rules (namespace, name, spec, export_to, subsets) VALUES (NULL, 'y', '{"host": "d", "subsets": []}', '{.}', NULL)`)
	require.JSONEq(t, `{"host": "d", "subsets": [], "exportTo": ["."]}`, db.spec("destination_rules", "y"))

	require.Equal(t, "UPDATE 1", db.affected("UPDATE mesh.destination_rules SET name = 'z', namespace = 'shop' WHERE name = 'y'"))
	require.Equal(t, "UPDATE 0", db.affected("UPDATE mesh.destination_rules SET host = 'e' WHERE name = 'y'"))
	require.Equal(t, []string{"default/x", "shop/z"}, collect[string](db, "SELECT namespace || '/' || name FROM mesh.destination_rules ORDER BY 1"))
	require.Equal(t, "DELETE 2", db.affected("DELETE FROM mesh.destination_rules"))

	db.Exec(`INSERT INTO mesh.gateway_classes (name, controller_name) VALUES ('x', 'pgmesh.io/x')`)
	require.Empty(t, value[string](db, "SELECT namespace FROM mesh.gateway_classes"))
	db.Exec(`INSERT INTO mesh.gateways (name, servers) VALUES ('x', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["a.example.com"]}]')`)
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh.k8s_gateways"))
}

// A field keeps the spelling that it was given.
func TestAColumnIsAFieldInAnySpelling(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('DestinationRule', 'x', '{"host": "a", "export_to": ["."], "subsets": null}')`)
	require.Equal(t, "{.} t", value[string](db, "SELECT concat_ws(' ', export_to, subsets IS NULL) FROM mesh.destination_rules"))
	db.Exec("UPDATE mesh.destination_rules SET export_to = '{*}'")
	require.JSONEq(t, `{"host": "a", "subsets": null, "export_to": ["*"]}`, db.spec("destination_rules", "x"))
	db.Exec(`UPDATE mesh.destination_rules SET export_to = NULL, subsets = '[{"name": "v1"}]'`)
	require.JSONEq(t, `{"host": "a", "subsets": [{"name": "v1"}]}`, db.spec("destination_rules", "x"))

	// A field that is null is one that is not set, to everybody who looks at it.
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES
		('VirtualService', 'x', '{"hosts": ["a.b"], "gateways": null, "tls": null, "http": [{"match": null, "route": [{"destination": {"host": "a.b", "subset": null, "port": null}}]}]}'),
		('ServiceEntry', 'x', '{"hosts": ["a.b"], "addresses": null, "ports": [{"number": 80, "name": "http", "targetPort": null}], "resolution": "DNS", "endpoints": null, "exportTo": null}')`)
	require.True(t, value[bool](db, "SELECT r.match IS NULL AND p.target_port IS NULL AND r.spec ? 'match' FROM mesh.routes r, mesh.service_ports p"))
}

func TestViewsRefuseWhatTheTableRefuses(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec("INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'a')")
	for _, c := range []struct{ sql, code, says string }{
		{"UPDATE mesh.destination_rules SET host = NULL", "23514", "spec.host: required field is missing"},
		{`UPDATE mesh.destination_rules SET subsets = '[{"nam": "v1"}]'`, "23514", "spec.subsets[0].nam"},
		{"UPDATE mesh.destination_rules SET name = 'X_'", "23514", "metadata.name"},
		{"UPDATE mesh.destination_rules SET revision = 7", "MS003", "set by themselves"},
		{"INSERT INTO mesh.destination_rules (host) VALUES ('a')", "23502", "name"},
		{"INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'b')", "23505", "DestinationRule default/x is there already"},
		// What Postgres does not offer on views like these. The reference says what to write
		// instead.
		{"INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'b') ON CONFLICT DO NOTHING", "23505", "DestinationRule default/x is there already"},
		{"INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'b') ON CONFLICT (namespace, name) DO UPDATE SET host = 'b'", "42P10", "ON CONFLICT"},
	} {
		refused := db.Refused(c.sql)
		require.Equal(t, c.code, refused.Code, c.sql)
		require.Contains(t, refused.Message, c.says, c.sql)
	}
	require.JSONEq(t, `{"host": "a"}`, db.spec("destination_rules", "x"))
}

// Rows that no validation saw can be read, whatever stands in them.
func TestViewsShowWhatTheyCanOfAnything(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	odd := []string{`null`, `true`, `"x"`, `""`, `"5"`, `"5.0"`, `5.5`, `-1`, `1e400`, `99999999999999999999999`, `"99999999999999999999"`, `2147483648`, `[]`, `[null, 1, {}, []]`, `{}`, `{"x": null}`}
	db.Exec("ALTER TABLE mesh.resources DISABLE TRIGGER USER")
	for i, v := range odd {
		db.Exec(`INSERT INTO mesh.resources (api_group, kind, name, spec) SELECT api_group, kind, 'odd' || $1::int, $2 FROM mesh.kinds`, i, v)
		db.Exec(`INSERT INTO mesh.resources (api_group, kind, name, spec)
			SELECT k.api_group, k.kind, 'field' || $1::int, (SELECT jsonb_object_agg(f.name, $2::jsonb) FROM mesh.schema_fields f WHERE f.type = k.type) FROM mesh.kinds k WHERE type IS NOT NULL`, i, v)
		for j, lists := range []string{
			`{"http": [%s], "tls": [{"route": %s}], "tcp": [{"match": %s, "route": [%s, {"destination": %s}, {"destination": {"port": {"number": %s}}, "weight": %s}]}]}`,
			`{"subsets": [{"name": %s}, %s], "ports": [%s], "endpoints": [{"weight": %s}], "servers": [{"port": %s, "hosts": %s}, {"port": {"number": %s}}]}`,
			`{"listeners": [%s, {"name": %s, "port": %s, "tls": %s}], "rules": [%s, {"name": %s, "matches": %s, "filters": %s, "backendRefs": %s},
				{"matches": [%s, {"path": %s, "method": %s, "headers": %s}, {"path": {"type": %s, "value": %s}, "method": {"type": %s, "service": %s, "method": %s}}],
				"filters": [%s, {"type": %s}], "backendRefs": [%s, {"name": %s, "namespace": %s, "port": %s, "weight": %s}]}],
				"parentRefs": [%s, {"group": %s, "name": %s, "port": %s}]}`,
		} {
			db.Exec(`INSERT INTO mesh.resources (api_group, kind, name, spec) SELECT api_group, kind, 'part' || $1::int || '-' || $2::int, $3 FROM mesh.kinds WHERE type IS NOT NULL`,
				i, j, strings.ReplaceAll(lists, "%s", v))
		}
	}
	for _, view := range append(collect[string](db, "SELECT view FROM mesh_internal.editable_views"), "attached_routes", "quotas") {
		db.Exec("CREATE TEMP TABLE shown AS SELECT * FROM mesh." + view + "; DROP TABLE shown")
	}
	require.Equal(t, []string{"field10:", "field11:2147483648", "field4:5", "field5:5", "field6:", "field7:-1", "field8:", "field9:"},
		collect[string](db, "SELECT name || ':' || coalesce(weight::text, '') FROM mesh.workload_entries WHERE name ~ '^field([4-9]|10|11)$' ORDER BY name"))
}

func TestConcurrentWritersOfOneRow(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	first, second, observer := connect(t, url), connect(t, url), connect(t, url)
	for _, c := range []struct{ name, first, second, code, left string }{
		{"different columns", "SET subsets = '[]'", "SET export_to = '{.}'", "<nil>", `{"host": "a", "subsets": [], "exportTo": ["."]}`},
		{"spec and labels", `SET spec = '{"host": "b"}'`, `SET labels = '{"a": "b"}'`, "<nil>", `{"host": "b"}`},
		{"the same column", "SET host = 'b'", "SET host = host || 'c'", "40001", `{"host": "b"}`},
		{"labels", `SET labels = '{"a": "1"}'`, `SET labels = '{"a": "2"}'`, "40001", `{"host": "a"}`},
		{"column and spec", "SET subsets = '[]'", `SET spec = '{"host": "b"}'`, "40001", `{"host": "a", "subsets": []}`},
	} {
		observer.Exec(`DELETE FROM mesh.destination_rules; INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'a')`)
		first.Exec("BEGIN; UPDATE mesh.destination_rules " + c.first)
		done := second.blocked(observer, "UPDATE mesh.destination_rules "+c.second)
		first.Exec("COMMIT")
		require.Equal(t, c.code, code(<-done), c.name)
		require.Equal(t, c.left, observer.spec("destination_rules", "x"), c.name)
	}

	first.Exec("BEGIN; UPDATE mesh.destination_rules SET host = 'c'")
	done := second.blocked(observer, "DELETE FROM mesh.destination_rules WHERE host = 'a'")
	first.Exec("COMMIT")
	require.Equal(t, "40001", code(<-done), "delete what has changed")

	first.Exec("BEGIN; DELETE FROM mesh.destination_rules")
	done = second.blocked(observer, "UPDATE mesh.destination_rules SET host = 'd'")
	first.Exec("COMMIT")
	require.NoError(t, <-done, "update what has gone")
	require.Zero(t, value[int](observer, "SELECT count(*) FROM mesh.destination_rules"))
}

// The key is looked up through each view, never searched for.
func TestViewsUseThePrimaryKey(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec("INSERT INTO mesh.destination_rules (name, host) SELECT 'x' || i, 'a' FROM generate_series(1, 500) i; ANALYZE mesh.resources")
	for _, view := range collect[string](db, "SELECT view FROM mesh_internal.editable_views") {
		parent := value[string](db, "SELECT parent FROM mesh_internal.editable_views WHERE view = $1", view)
		plan := strings.Join(collect[string](db, fmt.Sprintf("EXPLAIN SELECT * FROM mesh.%s WHERE namespace = 'default' AND %s = 'x1'", view, parent)), "\n")
		require.Regexp(t, `resource_exists_already[^\n]*\n *Index Cond: [^\n]*kind = [^\n]*namespace = 'default'[^\n]*name = 'x1'`, plan, view)
	}
}

// A field that a newer program knows becomes a column at the end; what is built on a view, or
// granted on it, stays.
func TestViewsFollowTheRegistry(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	role := value[string](db, "SELECT current_database()") + "_reader"
	db.Exec("CREATE ROLE " + role)
	t.Cleanup(func() { db.Exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	db.Exec("GRANT SELECT ON mesh.sidecars TO " + role)
	columns := func() []string {
		return collect[string](db, "SELECT attname::text FROM pg_attribute WHERE attrelid = 'mesh.sidecars'::regclass AND attnum > 0 ORDER BY attnum")
	}
	before := columns()
	db.Exec("CREATE VIEW mine AS SELECT name, egress FROM mesh.sidecars")
	db.Exec(`SELECT mesh_internal.begin_own_work('registry'); INSERT INTO mesh.schema_fields SELECT (jsonb_populate_record(f, '{"position": -1, "name": "newField", "names": ["newField", "new_field"]}')).*
		FROM mesh.schema_fields f WHERE type = 'istio.networking.v1alpha3.Sidecar' AND name = 'ingress'`)
	db.Exec("SELECT mesh_internal.make_views()")
	require.Equal(t, append(slices.Clone(before), "new_field"), columns())

	db.Exec("SELECT mesh_internal.begin_own_work('registry'); DELETE FROM mesh.schema_fields WHERE type = 'istio.networking.v1alpha3.Sidecar' AND name IN ('newField', 'ingress')")
	refused := db.Refused("SELECT mesh_internal.make_views()")
	require.Equal(t, "2BP01 the view mesh.sidecars has to change, and something depends on it", refused.Code+" "+refused.Message)
	require.Contains(t, refused.Detail, "mine depends on view mesh.sidecars")
	db.Exec("DROP VIEW mine; SELECT mesh_internal.make_views()")
	require.NotContains(t, columns(), "ingress")
	require.True(t, value[bool](db, "SELECT has_table_privilege($1, 'mesh.sidecars', 'SELECT')", role))

	db.Exec("SELECT mesh_internal.begin_own_work('registry'); DELETE FROM mesh.kinds WHERE kind = 'Sidecar'; SELECT mesh_internal.make_views()")
	require.True(t, value[bool](db, "SELECT to_regclass('mesh.sidecars') IS NULL"))
}

// Whoever may write to a view needs no right on the table under it.
func TestAGrantOnAViewIsEnough(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	role := y.role("narrow")
	y.grant(role, "a", "write")
	y.owner.Exec(fmt.Sprintf("REVOKE ALL ON ALL TABLES IN SCHEMA mesh FROM %s; GRANT SELECT, INSERT, UPDATE, DELETE ON mesh.subsets, mesh.destination_rules TO %[1]s", role))
	narrow := y.as(role)
	narrow.Exec("INSERT INTO mesh.destination_rules (namespace, name, host) VALUES ('a', 'x', 'a')")
	narrow.Exec("INSERT INTO mesh.subsets (namespace, destination_rule, name) VALUES ('a', 'x', 'v1')")
	require.Equal(t, "42501", narrow.Refused("INSERT INTO mesh.destination_rules (namespace, name, host) VALUES ('b', 'x', 'a')").Code)
	require.Equal(t, "42501", narrow.Refused("SELECT FROM mesh.virtual_services").Code)
	require.Equal(t, "42501", narrow.Refused("SELECT FROM mesh.resources").Code)
}

// From Postgres 17 on, MERGE is the upsert of views.
func TestMergeIntoAView(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	if value[int](db, "SELECT current_setting('server_version_num')::int") < 170000 {
		t.Skip("this Postgres has no MERGE into views")
	}
	for _, host := range []string{"a", "b"} {
		db.Exec(`MERGE INTO mesh.destination_rules d USING (VALUES ('x', '` + host + `')) AS v (name, host) ON d.namespace = 'default' AND d.name = v.name
			WHEN MATCHED THEN UPDATE SET host = v.host WHEN NOT MATCHED THEN INSERT (name, host) VALUES (v.name, v.host)`)
		require.JSONEq(t, `{"host": "`+host+`"}`, db.spec("destination_rules", "x"))
	}
}

package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migration"
	"github.com/pgmesh/pgmesh/store/resources"
)

// tenancy is a database with resources in the namespaces a and b. Whatever belongs to b has the
// word canary in it.
type tenancy struct {
	owner session
	url   string
}

func newTenancy(t *testing.T) tenancy {
	t.Helper()
	y := storetest.NewTenancy(t)
	return tenancy{session{y.Owner}, y.URL}
}

func (y tenancy) shared() storetest.Tenancy {
	return storetest.Tenancy{Owner: y.owner.Session, URL: y.url}
}

func (y tenancy) role(suffix string, options ...string) string {
	return y.shared().Role(suffix, options...)
}

func (y tenancy) as(role string) session { return session{y.shared().As(role)} }

func (y tenancy) login(role string) string { return y.shared().Login(role) }

func (y tenancy) tenant(suffix string, grants ...[2]string) session {
	return session{y.shared().Tenant(suffix, grants...)}
}

func (y tenancy) grant(role, namespace, privilege string) {
	y.shared().Grant(role, namespace, privilege)
}

const names = "SELECT coalesce(string_agg(namespace || '/' || name, ' ' ORDER BY namespace, name), '') FROM mesh.resources"

func TestGrantsOpenNamespaces(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.owner.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
		('VirtualService', 'b', 'y', $1), ('GatewayClass', '', 'z', '{"controllerName": "pgmesh.io/x"}')`, virtualService("b"))
	role := y.role("tenant")
	tenant := y.as(role)
	require.Equal(t, "42501", tenant.Refused(names).Code, "nothing was granted yet")

	for _, step := range []struct{ namespace, privilege, sees string }{
		{"a", "read", "a/x"},
		{"b", "read", "a/x b/y"},
		{"", "read", "/z a/x b/y"},
	} {
		y.grant(role, step.namespace, step.privilege)
		require.Equal(t, step.sees, value[string](tenant, names))
	}
	for _, namespace := range []string{"", "b"} {
		require.True(t, value[bool](y.owner, "SELECT mesh.revoke_namespace($1, $2)", role, namespace))
		require.False(t, value[bool](y.owner, "SELECT mesh.revoke_namespace($1, $2)", role, namespace))
	}
	require.Equal(t, "a/x", value[string](tenant, names))
	y.grant(role, "*", "read")
	require.Equal(t, "/z a/x b/y", value[string](tenant, names))
	y.owner.Exec("SELECT mesh.revoke_namespace($1, '*'), mesh.revoke_namespace($1, 'a')", role)
	require.Equal(t, "42501", tenant.Refused(names).Code, "the plain privileges went with the last grant")
}

func TestWritesToOthersNamespacesAreRefused(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.owner.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'b', 'y', $1)", virtualService("b"))
	tenant := y.tenant("tenant", [2]string{"b", "read"})
	insert := func(kind, namespace string) string {
		return fmt.Sprintf("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('%s', '%s', 'y', '%s')", kind, namespace, virtualService("b"))
	}
	for lacks, statements := range map[string][]string{
		"b": {
			"UPDATE mesh.virtual_services SET labels = '{}'", "DELETE FROM mesh.virtual_services", "DELETE FROM mesh.virtual_services WHERE name = 'y'",
			"UPDATE mesh.resources SET namespace = 'b' WHERE name = 'x'", "UPDATE mesh.virtual_services SET namespace = 'a' WHERE name = 'y'",
			insert("VirtualService", "b"), insert("VirtualService", "b") + " ON CONFLICT DO NOTHING",
		},
		"c": {insert("VirtualService", "c"), "UPDATE mesh.resources SET namespace = 'c' WHERE name = 'x'"},
		"":  {insert("GatewayClass", "a")},
	} {
		for _, sql := range statements {
			refused := tenant.Refused(sql)
			require.Equal(t, "42501", refused.Code, sql)
			require.Contains(t, refused.Message, tenant.Conn.Config().User, sql)
			require.Contains(t, refused.Hint, fmt.Sprintf("SELECT mesh.grant_namespace('%s', '%s', 'write')", tenant.Conn.Config().User, lacks), sql)
		}
	}
	tenant.Exec("UPDATE mesh.resources SET labels = '{\"a\": \"b\"}'")
	require.Equal(t, "a/x", value[string](y.owner, "SELECT namespace || '/' || name FROM mesh.resources WHERE labels <> '{}'"), "an UPDATE of the table leaves out what may only be read")
	require.Equal(t, "42501", tenant.Refused("DELETE FROM mesh.resources").Code)
	tenant.Exec("UPDATE mesh.resources SET name = 'renamed' WHERE namespace = 'a'")
	require.Equal(t, "a/renamed b/y", value[string](y.owner, names))
}

// Write includes read, a lesser grant takes nothing away, and the line that a refusal gives is all
// that it takes.
func TestGrantsAddUp(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant", [2]string{"b", "read"}, [2]string{"b", "read"})
	insert := "INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'b', 'y', '" + string(virtualService("b")) + "')"
	y.owner.Exec(strings.TrimPrefix(tenant.Refused(insert).Hint, "have the owner of the mesh run: "))
	tenant.Exec(insert)
	y.grant(tenant.Conn.Config().User, "b", "read")
	tenant.Exec("UPDATE mesh.resources SET labels = '{\"x\": \"y\"}' WHERE namespace = 'b'")
	require.Equal(t, "a/x b/y", value[string](tenant, names))
}

func TestGrantsThatAreRefused(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	role := tenant.Conn.Config().User
	for _, c := range []struct{ role, namespace, privilege, code, says string }{
		{role + "_not", "a", "read", "42704", "there is no role"},
		{"public", "a", "read", "42704", "there is no role"},
		{role, "A", "read", "22023", "not a valid namespace"},
		{role, "a", "server", "22023", "not a privilege"},
		{role, "a", "all", "22023", "not a privilege"},
	} {
		refused := y.owner.Refused("SELECT mesh.grant_namespace($1, $2, $3)", c.role, c.namespace, c.privilege)
		require.Equal(t, c.code, refused.Code)
		require.Contains(t, refused.Message, c.says)
		require.NotEmpty(t, refused.Hint)
	}
	for _, sql := range []string{"grant_namespace($1, 'b', 'read')", "revoke_namespace($1, 'a')", "grant_server($1)"} {
		require.Equal(t, "42501", tenant.Refused("SELECT mesh."+sql, role).Code, sql)
	}
	require.Equal(t, "a", value[string](tenant, "SELECT string_agg(namespace, ' ') FROM mesh.grants"))
}

// What counts is the role that a session has put on, and what it is a member of.
func TestGrantsReachMembersAndRolesPutOn(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	team, member, web := y.role("team"), y.role("member"), y.role("web", "NOINHERIT")
	y.grant(team, "a", "write")
	y.owner.Exec("GRANT " + team + " TO " + member + ", " + web)
	require.Equal(t, "a/x", value[string](y.as(member), names))
	app := y.as(web)
	require.Equal(t, "42501", app.Refused(names).Code)
	app.Exec("SET ROLE " + team)
	require.Equal(t, "a/x", value[string](app, names))
	y.owner.Exec("SET ROLE " + team)
	require.Equal(t, "a/x", value[string](y.owner, names), "an owner can try out what a tenant sees")
	y.owner.Exec("RESET ROLE")

	owner := value[string](y.owner, "SELECT current_user")
	y.owner.Exec("GRANT " + owner + " TO " + member)
	y.as(member).Exec("SELECT mesh.grant_namespace($1, 'b', 'read')", team)
	require.Equal(t, member, value[string](y.owner, "SELECT granted_by FROM mesh.grants WHERE namespace = 'b'"))
}

// A server need not be the owner. It reads everything, follows, and writes in the names of others,
// which no tenant can.
func TestServersRole(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	server := y.role("server")
	y.owner.Exec("SELECT mesh.grant_server($1)", server)
	db := y.as(server)
	s := openURL(t, db.Conn.Config().ConnString())
	batches := follow(t, s, 0)
	applied, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: vs(t, "new"), Spec: virtualService("b")}}, Author: "alice"})
	require.NoError(t, err)
	for b := range batches {
		if b.Revision == applied.Revision {
			require.Equal(t, "alice", b.Author)
			break
		}
	}
	_, err = resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: vs(t, "newer"), Spec: virtualService("b")}}, DryRun: true})
	require.NoError(t, err)
	seen := 0
	_, err = resources.New(s).Export(t.Context(), resources.Selection{}, store.Moment{}, func(*store.Resource) error { seen++; return nil })
	require.NoError(t, err)
	require.Equal(t, 2, seen)
	db.Exec("SELECT * FROM mesh_internal.chores(), mesh.revert_overdue(), mesh.prune_expired()")
	require.Equal(t, "42501", db.Refused("DELETE FROM mesh_internal.changes").Code)
	require.Equal(t, "42501", db.Refused("SELECT mesh.grant_namespace($1, 'a', 'read')", server).Code)

	tenant := y.tenant("tenant", [2]string{"*", "write"})
	tenant.Exec("SET mesh.author = 'alice'")
	tenant.Put("new", "c")
	require.Equal(t, tenant.Conn.Config().User, value[string](y.owner, "SELECT author FROM mesh.revisions ORDER BY revision DESC LIMIT 1"))
}

// A grant is all that a role needs for everything that the schema offers.
func TestTenantsUseEverythingInTheirNamespace(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	tenant.Exec(`INSERT INTO mesh.service_entries (namespace, name, hosts, resolution, location, ports, endpoints) VALUES
		('a', 'reviews', '{reviews}', 'STATIC', 'MESH_INTERNAL', '[{"number": 80, "name": "http", "protocol": "HTTP"}]', '[{"address": "10.0.0.1"}]')`)
	tenant.Exec(`INSERT INTO mesh.destination_rules (namespace, name, host, subsets) VALUES
		('a', 'reviews', 'reviews', '[{"name": "v1", "labels": {"version": "v1"}}, {"name": "v2", "labels": {"version": "v2"}}]')`)
	tenant.Exec("INSERT INTO mesh.virtual_services (namespace, name, hosts, http) VALUES ('a', 'reviews', '{reviews}', " +
		`'[{"route": [{"destination": {"host": "reviews", "subset": "v1"}, "weight": 90}, {"destination": {"host": "reviews", "subset": "v2"}, "weight": 10}]}]')`)
	before := value[int64](tenant, "SELECT mesh.begin_change('nothing yet')")
	tenant.Exec("UPDATE mesh.route_destinations SET weight = CASE subset WHEN 'v1' THEN 50 ELSE 50 END WHERE virtual_service = 'reviews'")
	tenant.Exec("UPDATE mesh.subsets SET labels = labels || '{\"x\": \"y\"}' WHERE name = 'v2'")
	tenant.Exec("UPDATE mesh.service_endpoints SET address = '10.0.0.2'")
	tenant.Exec("INSERT INTO mesh.http_routes (namespace, name, parent_refs, rules) VALUES ('a', 'reviews', '[{\"name\": \"edge\"}]', " +
		`'[{"name": "all", "backendRefs": [{"name": "v1", "port": 80, "weight": 90}, {"name": "v2", "port": 80, "weight": 10}]}]')`)
	require.Equal(t, "UPDATE 2", tenant.affected("UPDATE mesh.http_route_backends SET weight = 50 WHERE rule = 'all'"))
	require.Equal(t, "a/reviews edge", value[string](tenant, "SELECT concat_ws(' ', namespace || '/' || name, parent_name) FROM mesh.attached_routes"))
	require.Equal(t, "42501", tenant.Refused("INSERT INTO mesh.http_route_backends (namespace, http_route, name) VALUES ('b', 'nobody-knows', 'x')").Code, "who may not write does not learn what there is")
	require.Equal(t, int64(7), value[int64](tenant, "SELECT count(*) FROM mesh.history WHERE namespace = 'a' AND revision > 2")-1)
	require.Positive(t, value[int64](tenant, "SELECT count(*) FROM mesh.diff($1::bigint)", before))
	require.Positive(t, value[int64](tenant, "SELECT count(*) FROM mesh.blame('VirtualService', 'a', 'reviews')"))
	tenant.Exec("UPDATE mesh.route_destinations SET subset = 'v3' WHERE subset = 'v2'")
	require.Equal(t, "unknown-subset", value[string](tenant, "SELECT DISTINCT code FROM mesh.problems WHERE path LIKE '%.subset'"))
	require.Equal(t, int64(4), value[int64](tenant, "SELECT count(*) FROM mesh.restore($1::bigint)", before))
	tenant.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour'); DELETE FROM mesh.virtual_services WHERE name = 'reviews'; COMMIT")
	require.Equal(t, "waiting", value[string](tenant, "SELECT state FROM mesh.confirmations"))
	tenant.Exec("SELECT mesh.confirm()")
	tenant.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'strict_references', 'on')")
	require.Equal(t, "on", value[string](tenant, "SELECT mesh.setting('strict_references', 'a')"))
	require.Equal(t, "42501", tenant.Refused("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')").Code)
	y.owner.Exec("INSERT INTO mesh.settings (name, value) VALUES ('history_max_age', '1 day')")
	require.Equal(t, "1 day", value[string](tenant, "SELECT mesh.setting('history_max_age')"), "what holds for all can be read by all")
}

// Tenants reach of what is internal what their statements need, and no more: the functions that
// views, policies and functions for users call with the rights of whoever asks.
func TestTenantsReachLittleOfWhatIsInternal(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	require.False(t, value[bool](tenant, "SELECT has_schema_privilege('mesh_internal', 'CREATE')"))
	require.Equal(t, []string{"editable_columns", "editable_views", "schema_parts", "schema_types"}, collect[string](tenant, `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'mesh_internal'::regnamespace AND relkind IN ('r', 'v') AND has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE') ORDER BY 1`))
	require.Equal(t, []string{"transactions.begun_at", "transactions.revision", "transactions.xid"}, collect[string](tenant, `SELECT relname || '.' || attname FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 WHERE relnamespace = 'mesh_internal'::regnamespace AND relkind IN ('r', 'v')
			AND NOT has_table_privilege(c.oid, 'SELECT') AND has_column_privilege(c.oid, attnum, 'SELECT, INSERT, UPDATE') ORDER BY 1`))
	const executable = "SELECT count(*) FILTER (WHERE has_function_privilege(oid, 'EXECUTE')) * 3 < count(*) FROM pg_proc WHERE pronamespace = 'mesh_internal'::regnamespace"
	require.True(t, value[bool](tenant, executable), "most functions are none of theirs")
	for _, sql := range []string{"SELECT mesh_internal.chores()", "SELECT mesh_internal.set_privileges('x')", "TABLE mesh.transactions"} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
	// A role that was granted something on all of the schema by hand, or by an older program, has
	// it taken away.
	y.owner.Exec("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA mesh_internal TO " + tenant.Conn.Config().User)
	y.grant(tenant.Conn.Config().User, "b", "read")
	require.True(t, value[bool](tenant, executable))
}

func TestPublicIsGrantedNothing(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	require.Empty(t, value[[]string](y.owner, `SELECT coalesce(array_agg(p.oid::regprocedure::text), '{}') FROM pg_proc p,
		LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND grantee = 0`))
	require.Empty(t, value[[]string](y.owner, `SELECT coalesce(array_agg(c.oid::regclass::text), '{}') FROM pg_class c,
		LATERAL aclexplode(relacl) WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND grantee = 0`))
}

// reviewed lists the functions that run as the owner and that a tenant can call, each with the
// reason why that shows nobody anything and changes nothing. Whoever adds one tells here.
var reviewed = map[string]string{
	"note_control_plane": "asks require_server",
	"granted":            "tells of the caller's own grants", "holds": "likewise", "require_owner": "raises or does nothing",
	"grant_namespace": "asks require_owner", "revoke_namespace": "asks require_owner", "grant_server": "asks require_owner",
	"begin_change": "names the caller's own transaction", "commit_confirmed": "likewise",
	"trace_id":        "tells a hash, from which nothing follows",
	"newest_revision": "tells a number", "oldest_revision": "tells a number", "known_revision": "tells a number",
	"newest_revision_by": "tells a number", "revision_at": "tells a number", "expired_revision": "tells a number",
	"confirm": "asks require_write for what the revision changed", "revert": "likewise",
	"revert_overdue": "what it writes is checked as what the caller writes", "chores": "counts",
	"rules_kept":     "reads what the caller gives it",
	"root_namespace": "tells a name", "find_default_deny": "tells what holds for everybody, and names to those who may read the root namespace",
	"owner_of_host": "tells a name to whoever knows the host", "is_foreign": "likewise", "default_scope": "tells names",
	"grant_hosts": "asks require_server", "revoke_hosts": "asks require_server", "find_host_grants": "filters what it finds by the caller's grants",
	"find_quotas":     "filters what it finds by the caller's grants",
	"blocking":        "lists nothing but to servers",
	"is_server":       "tells of a role",
	"note_trust":      "asks require_server",
	"end_blocker":     "asks require_server",
	"take_sink":       "asks require_server",
	"release_sink":    "asks require_server",
	"tell_sink":       "asks require_server",
	"restore":         "what it writes is checked as what the caller writes",
	"reset_setting":   "asks require_write",
	"delete_secret":   "asks require_secrets",
	"known_host_like": "asks may_name", "host_hint": "asks may_name", "subset_hint": "asks may_name", "key_hint": "asks may_name",
	"as_of": "asks readable_among", "require_names": "asks readable_among", "pending_problems": "looks at the running transaction alone, and asks shows_all and shown_namespaces",
	"revoke_all": "asks require_owner", "check_installation": "asks for the owner or a server", "changed_since": "asks readable_among", "differing_resources": "asks readable_among",
	"find_problems": "filters what it finds by the caller's grants", "find_problems_of": "likewise", "chosen_resources": "likewise", "progress_of": "likewise",
	"refusals_of": "likewise", "runner_counts": "reads chosen_resources and known_proxies, which filter", "runners_of": "likewise", "statuses_of": "likewise",
	"decided_statuses":  "reads chosen_resources, which filters",
	"routes_at_parents": "reads chosen_resources and decided_statuses, which filter",
	"broken_conditions": "reads find_problems", "latest_rollouts": "reads recent_revisions and progress_of, which filter", "require_resource": "reads chosen_resources",
	"registry_statuses": "asks require_server", "status_moves": "asks require_server",
	"status_of": "asks require_resource", "runs": "likewise", "first_refusal": "reads refusals_of", "why_behind": "reads known_proxies, which filters",
	"other_owner": "asks may_name", "other_description": "asks may_name", "examine_change": "looks at the running transaction alone", "prune": "asks for the owner or a server", "adopt": "likewise",
	"holds_secrets": "tells of the caller's own grants", "granted_secrets": "likewise", "grant_secrets": "asks require_owner", "revoke_secrets": "asks require_owner",
	"report_findings": "asks require_server",
	"trust_domains":   "tells names", "trust_federated": "asks require_server", "distrust_federated": "asks require_server",
	"put_join_issuer": "asks require_server", "remove_join_issuer": "asks require_server",
	"first_authority": "asks require_server", "add_authority": "asks require_server", "activate_authority": "asks require_server",
	"retire_authority": "asks require_server", "reseal_authority": "asks require_server",
	"record_certificates": "asks require_server", "prune_certificates": "asks require_server",
	"revoke_identity": "asks require_write", "restore_identity": "asks require_write",
	"revoke_machine": "asks require_write, and names no machine of what cannot be read", "restore_machine": "likewise",
	"revoke_server": "asks require_server", "restore_server": "asks require_server",
	"create_join_token": "asks require_write, or require_server for a server's", "revoke_join_token": "likewise",
	"add_sealing_key": "asks require_server", "redeem_join_tokens": "asks require_server", "revoke_join_token_among": "asks require_server",
	"open_workload_session": "asks require_server", "end_workload_sessions": "asks require_server", "refresh_workload_sessions": "asks require_server",
	"register_workloads": "asks require_server", "watch_workloads": "asks require_server", "remove_gone_workloads": "asks require_server",
	"remove_orphaned_workloads": "asks require_server", "remove_machine": "asks require_write",
	"keep_reports": "asks require_server", "keeps_reports": "asks require_server", "begin_report": "asks require_server", "take_report": "asks require_server",
	"end_reports": "asks require_server", "sweep_reports": "asks require_server", "live_keepers": "tells numbers",
	"claim_registry": "asks require_server", "mirrored_entries": "asks require_server", "mirror_registry": "asks require_server",
	"leave_registries": "asks require_server", "sweep_registries": "asks require_server", "registries_have": "is not for tenants, and tells of a host to whoever knows it",
	"registry_services": "is not for tenants, as registries_have", "registry_ports": "likewise", "registries_choose": "likewise", "serve_subset": "likewise",
	"registries_lend": "likewise", "lent_secrets": "likewise",
	"registry_owner": "asks may_name", "known_ports": "tells of a host to whoever knows it", "origin_of": "asks shows_all and shown_namespaces",
	"backends_of": "asks shows_all and shown_namespaces", "hider_of": "asks shows_all and shown_namespaces",
	"refuse_waiting": "looks at the running transaction alone", "wait": "reads known_proxies, which filters",
	"create_token": "asks require_server", "revoke_token": "asks require_server", "note_token_uses": "asks require_server", "prune_expired": "calls prune", "check": "reads what the caller gives it",
}

func TestFunctionsThatRunAsTheOwnerWereReviewed(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	found := value[[]string](y.owner, `SELECT array_agg(DISTINCT proname::text ORDER BY proname::text) FROM pg_proc
		WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND prosecdef AND prorettype <> 'trigger'::regtype`)
	for _, name := range found {
		require.Contains(t, reviewed, name)
	}
	require.Len(t, found, len(reviewed))
	unsafe := value[[]string](y.owner, `SELECT coalesce(array_agg(proname::text), '{}') FROM pg_proc
		WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND prosecdef AND NOT coalesce(proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false)`)
	require.Empty(t, unsafe, "they could be made to call functions of the caller")
}

// relations lists the tables and views of the mesh, of some kinds, by their full names.
func relations(s session, kinds string) []string {
	return collect[string](s, `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
		AND relkind::text = ANY (string_to_array($1, NULL)) ORDER BY 1`, kinds)
}

// What the mesh has granted to a role does not keep it from being dropped, once that is revoked.
func TestARoleWithoutGrantsCanBeDropped(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	role := y.role("leaving")
	y.grant(role, "a", "write")
	y.grant(role, "b", "read")
	y.owner.Exec("SELECT mesh.grant_secrets($1, 'a', 'write')", role)
	y.grant(y.role("staying"), "a", "read")
	require.Equal(t, "2BP01", y.owner.Refused("DROP ROLE "+role).Code)
	require.Equal(t, "42501", y.tenant("tenant", [2]string{"a", "write"}).Refused("SELECT mesh.revoke_all($1)", role).Code)

	require.Equal(t, 3, value[int](y.owner, "SELECT mesh.revoke_all($1)", role))
	require.Zero(t, value[int](y.owner, "SELECT count(*) FROM mesh.grants WHERE role = $1", role))
	require.Equal(t, 2, value[int](y.owner, "SELECT count(*) FROM mesh.grants WHERE namespace = 'a'"), "others keep theirs")
	require.Zero(t, value[int](y.owner, "SELECT mesh.revoke_all($1)", role))
	y.owner.Exec("DROP ROLE " + role + "; CREATE ROLE " + role) // which the end of the test drops
	require.Equal(t, "42704", y.owner.Refused("SELECT mesh.revoke_all('nobody_of_that_name')").Code)
	for _, call := range []string{"revoke_all(NULL)", "grant_namespace(NULL, 'a', 'read')", "grant_server(NULL)"} {
		require.Contains(t, y.owner.Refused("SELECT mesh."+call).Message, "there is no role NULL", call)
	}
}

// A renamed role keeps plain privileges, and its grants the former name: each is cleared by its name.
func TestARenamedRoleIsClearedByBothNames(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	role := y.role("renamed")
	y.grant(role, "a", "write")
	y.owner.Exec("ALTER ROLE " + role + " RENAME TO " + role + "_now")
	told := "grants " + role + ": are of a role that is not there, and give nothing: it was dropped or renamed, or was missing at a restore; run: SELECT mesh.revoke_all('" + role + "'); or, if the role is to come back, note what mesh.grants lists, for the first grant forgets it, create the role, and grant it all anew"
	require.Equal(t, []string{told}, collect[string](y.owner, "SELECT format('%s %s: %s; %s', kind, name, difference, advice) FROM mesh.check_installation()"))
	require.Equal(t, "2BP01", y.owner.Refused("DROP ROLE "+role+"_now").Code)

	require.Equal(t, 1, value[int](y.owner, "SELECT mesh.revoke_all($1)", role+"_now"))
	require.Zero(t, value[int](y.owner, "SELECT mesh.revoke_all($1)", role+"_now"))
	require.Equal(t, 1, value[int](y.owner, "SELECT mesh.revoke_all($1)", role))
	require.Empty(t, collect[string](y.owner, whatDiffers))
	y.owner.Exec("DROP ROLE " + role + "_now; CREATE ROLE " + role) // which the end of the test drops
}

// What a dropped role was granted waits for no other role of its name: not for one that is new, nor
// until a migration or another grant. It is told, with what clears it.
func TestANewRoleDoesNotInheritFromItsNamesake(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.owner.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'b', 'y', $1)", virtualService("b"))
	staying := y.tenant("staying")
	role := y.role("passing")
	again := func() {
		y.owner.Exec("DROP OWNED BY " + role + "; DROP ROLE " + role + "; CREATE ROLE " + role + " LOGIN PASSWORD 'secret'")
	}
	y.grant(role, "a", "write")
	y.owner.Exec("SELECT mesh.grant_secrets($1, 'a', 'write'), mesh.grant_server($1)", role)
	require.Empty(t, collect[string](y.owner, whatDiffers))
	again()

	const advice = "SELECT concat_ws(' ', kind, name, difference, advice) FROM mesh.check_installation()"
	told := []string{fmt.Sprintf("grants %s are of a role that was dropped or renamed, or was missing at a restore, and give nothing: another role has its name now run: SELECT mesh.revoke_all('%[1]s'); grant anew what is meant for the role of today", role)}
	nothing := func() {
		t.Helper()
		require.Equal(t, "42501", y.as(role).Refused(names).Code)
		require.Equal(t, told, collect[string](y.owner, advice))
		require.False(t, value[bool](y.owner, "SELECT bool_or(in_force) FROM mesh.grants WHERE role = $1", role))
	}
	nothing()
	y.owner.Exec("UPDATE mesh_internal.installation SET code_digest = ''")
	require.NoError(t, migration.UpTelling(t.Context(), y.url, storetest.Quietly))
	nothing()
	require.True(t, value[bool](y.owner, "SELECT mesh.revoke_namespace($1, '*')", role))
	nothing()
	y.owner.Exec("GRANT " + staying.Conn.Config().User + " TO " + role)
	require.Equal(t, "a/x", value[string](y.as(role), names), "through the other role")
	require.Equal(t, staying.Conn.Config().User, value[string](y.as(role), "SELECT string_agg(DISTINCT role, ' ') FROM mesh.grants"))
	require.Equal(t, "42501", y.as(role).Refused("SELECT mesh.delete_secret('a', 'x')").Code)
	y.owner.Exec("REVOKE " + staying.Conn.Config().User + " FROM " + role)

	y.grant(role, "b", "read")
	require.Equal(t, "b/y", value[string](y.as(role), names), "what it is granted is all that it has")
	require.Empty(t, collect[string](y.owner, advice))

	again()
	require.Len(t, collect[string](y.owner, advice), 1)
	y.owner.Exec(value[string](y.owner, "SELECT substring(advice FROM 'run: ([^;]*)') FROM mesh.check_installation()"))
	require.Empty(t, collect[string](y.owner, advice))
	require.Equal(t, "a/x", value[string](staying, names))
}

// A role that lost a privilege, or with its schemas all of them, is told until a migration grants it again.
// What somebody else has added is nobody's loss.
func TestLostPrivilegesAreToldAndGrantedAgain(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant", [2]string{"a", "write"})
	role, server := tenant.Conn.Config().User, y.role("server")
	y.owner.Exec("SELECT mesh.grant_server($1)", server)
	y.owner.Exec("CREATE VIEW mesh.mine AS SELECT 1 AS one; ALTER TABLE mesh.resources ADD COLUMN mine text; CREATE FUNCTION mesh.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION mesh.mine FROM PUBLIC")
	const told = "SELECT format('%s %s; %s', name, difference, advice) FROM mesh.check_installation() WHERE kind = 'grants'"
	for revoked, lacks := range map[string]string{
		"SELECT ON mesh.resources FROM " + role:                                role + " give less than they should: the role lacks SELECT on mesh.resources",
		"UPDATE (labels) ON mesh.resources FROM " + role:                       role + " give less than they should: the role lacks UPDATE on mesh.resources",
		"INSERT, DELETE ON mesh.virtual_services FROM " + role:                 role + " give less than they should: the role lacks DELETE on mesh.virtual_services, and 1 more privileges",
		"USAGE ON SCHEMA mesh FROM " + role:                                    role + " give less than they should: the role lacks USAGE on mesh",
		"SELECT ON mesh_internal.changes FROM " + server:                       server + " give less than they should: the role lacks SELECT on mesh_internal.changes",
		"EXECUTE ON FUNCTION mesh.adopt FROM " + server:                        server + " give less than they should: the role lacks EXECUTE on mesh.adopt(xid8)",
		"EXECUTE ON FUNCTION mesh_internal.readable_namespaces() FROM " + role: role + " give less than they should: the role lacks EXECUTE on mesh_internal.readable_namespaces()",
	} {
		require.Empty(t, collect[string](y.owner, told))
		y.owner.Exec("REVOKE " + revoked)
		require.Equal(t, []string{lacks + "; run mcp-server migrate up, which grants it again"}, collect[string](y.owner, told), revoked)
		require.NoError(t, migration.UpTelling(t.Context(), y.url, storetest.Quietly))
	}
	require.Equal(t, "a/x", value[string](tenant, names))
}

// The restore of a dump goes on without roles that are not there, and tells of them, even if there is
// none left that has grants.
func TestRolesThatWereMissingAtARestoreAreTold(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	gone, stays := y.role("gone"), y.role("stays")
	y.grant(gone, "a", "read")
	restored := func() tenancy {
		dumped := storetest.Run(t, nil, y.owner.Program("pg_dump"), "-Fp", "--schema=mesh", "--schema=mesh_internal", "-d", y.url)
		copied := tenancy{url: pgtest.Empty(t)}
		storetest.Run(t, []byte(strings.ReplaceAll(string(dumped), gone, gone+"_then")), y.owner.Program("psql"), "-qX", "-d", copied.url) // which goes on after errors
		copied.owner = connect(t, copied.url)
		return copied
	}
	const told = "SELECT concat_ws(' ', kind, name, difference, advice) FROM mesh.check_installation()"
	says := fmt.Sprintf("grants %s_then are of a role that is not there, and give nothing: it was dropped or renamed, or was missing at a restore "+
		"run: SELECT mesh.revoke_all('%[1]s_then'); or, if the role is to come back, note what mesh.grants lists, for the first grant forgets it, create the role, and grant it all anew", gone)
	for range 2 {
		copied := restored()
		require.Equal(t, []string{says}, collect[string](copied.owner, told))
		require.NoError(t, migration.UpTelling(t.Context(), copied.url, storetest.Quietly))
		require.Equal(t, []string{says}, collect[string](copied.owner, told))
		copied.owner.Exec("SELECT mesh.revoke_all($1)", gone+"_then")
		require.Empty(t, collect[string](copied.owner, told))
		y.grant(stays, "a", "read")
	}
}

package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestWhatManyRoutesNameIsSearchedForOnce(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	s := connect(t, url)
	s.create("Gateway.gateway.networking.k8s.io", "shop", "entrance", `{"gatewayClassName": "pgmesh", "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}]}`)
	s.create("ServiceEntry", "shop", "orders", at("10.0.0.1", "HTTP", "orders.mesh"))
	const many = 150
	s.Exec(`INSERT INTO mesh.resources (api_group, kind, namespace, name, spec)
		SELECT 'gateway.networking.k8s.io', 'HTTPRoute', 'shop', 'r' || i, '{"parentRefs": [{"name": "entrence"}], "rules": [{"backendRefs": [
			{"group": "networking.istio.io", "kind": "Hostname", "name": "orderz.mesh", "port": 80}, {"group": "networking.istio.io", "kind": "ServiceEntry", "name": "orderz"}]}]}'
		FROM generate_series(1, $1::int) i`, many)

	for _, query := range []string{"TABLE mesh.problems", "TABLE mesh.resource_status"} {
		require.Equal(t, "{hint_for=3,host_hint=1,key_hint=2}", s.calls(query, "key_hint", "host_hint", "hint_for"), "%s searches for each route", query)
	}
	hints := collect[string](s, "SELECT DISTINCT hint FROM mesh.problems ORDER BY 1")
	require.Equal(t, []string{`did you mean "orders.mesh"?`, `did you mean "shop/entrance"?`, `did you mean "shop/orders"?`}, hints)
	require.Equal(t, int64(3*many), value[int64](s, "SELECT count(*) FROM mesh.problems"))
	require.Equal(t, hints, collect[string](s, "SELECT DISTINCT hint FROM mesh_internal.find_problems_of('HTTPRoute', 'gateway.networking.k8s.io', 'shop', 'r7') ORDER BY 1"))
}

// Where thousands claim one host, the other owner of each is found without reading all of them.
func TestOwnersAreFoundWithoutReadingAll(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	const many = 200
	for where, namespace := range map[string]string{"each in a namespace of its own": "'n' || i", "all in one": "'n'", "in two": "'n' || i % 2"} {
		s := connect(t, url)
		s.Exec(`DELETE FROM mesh.resources`)
		s.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec)
			SELECT 'VirtualService', `+namespace+`, 'x' || i, '{"hosts": ["one.example"], "http": [{"redirect": {"uri": "/"}}]}' FROM generate_series(1, $1::int) i`, many)
		s.Exec("BEGIN; CREATE TEMP TABLE before ON COMMIT DROP AS SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'links'")
		require.Equal(t, int64(many), value[int64](s, `SELECT count(mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)) FROM mesh_internal.links l WHERE role = 'claim'`))
		read := value[int64](s, "SELECT n.idx_tup_fetch - b.idx_tup_fetch FROM pg_stat_xact_user_tables n, before b WHERE n.relname = 'links'")
		require.LessOrEqual(t, read, int64(5*many), where)
		s.Exec("COMMIT")
	}
}

// Rules about the items of a list read the list, and do not call themselves for each item.
func TestRulesReadListsAtOnce(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	insert := `INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ('gateway.networking.k8s.io', 'HTTPRoute', 'shop', 'r', '{"rules": [{"filters": [
		{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["a"]}}, {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["a"]}}]}]}')`
	require.Equal(t, "{rule_items=1}", connect(t, url).calls(insert, "rule_items"))
}

// calls tells how often a query calls functions. What Postgres has counted and not yet put down is
// part of the count of a transaction, so it is counted before, too.
func (s session) calls(query string, functions ...string) (all string) {
	s.T.Helper()
	require.NoError(s.T, pgx.BeginFunc(s.T.Context(), s.Conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(s.T.Context(), `SET LOCAL track_functions = 'all'; CREATE TEMP TABLE before ON COMMIT DROP AS SELECT funcname, calls FROM pg_stat_xact_user_functions`)
		require.NoError(s.T, err)
		_, err = tx.Exec(s.T.Context(), query)
		require.NoError(s.T, err)
		return tx.QueryRow(s.T.Context(), `SELECT array_agg(funcname || '=' || n.calls - coalesce(b.calls, 0) ORDER BY funcname)::text
			FROM pg_stat_xact_user_functions n LEFT JOIN before b USING (funcname) WHERE funcname = ANY ($1)`, functions).Scan(&all)
	}))
	return all
}

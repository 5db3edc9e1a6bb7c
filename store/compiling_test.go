package store_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Compiling a query takes a processor 50 ms and more. Every function with settings forbids it,
// triggers among them; those without settings run in the queries of others.
func TestNoFunctionIsCompiled(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	s := connect(t, url)
	require.Empty(t, collect[string](s, `SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND p.prokind = 'f'
		AND (p.proconfig IS NOT NULL OR p.oid IN (SELECT tgfoid FROM pg_trigger)) AND NOT 'jit=off' = ANY (coalesce(p.proconfig, '{}'))`))
}

// The settings of users' sessions are not ours. So what they read and write by views has to be
// estimated well below what Postgres compiles, in a mesh of 2,000 services, before and after its
// tables are analyzed.
func TestNoQueryOfUsersIsCompiled(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	s := connect(t, url)
	s.Exec(`INSERT INTO mesh.resources (kind, name, spec)
		SELECT kind, 'service-' || i, replace(spec, '%', i::text)::jsonb FROM generate_series(1, 2000) i, (VALUES
			('ServiceEntry', '{"hosts": ["service-%.test"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
				"endpoints": [{"address": "10.1.0.1"}, {"address": "10.1.0.2"}]}'),
			('DestinationRule', '{"host": "service-%.test", "subsets": [{"name": "v1", "labels": {"version": "v1"}}]}'),
			('VirtualService', '{"hosts": ["service-%.test"], "http": [{"route": [{"destination": {"host": "service-%.test"}}]}]}'),
			('HTTPRoute', '{"parentRefs": [{"name": "edge"}], "rules": [{"matches": [{"path": {"value": "/%"}}], "backendRefs": [{"name": "service-%", "port": 80}]}]}')) kinds (kind, spec)`)
	for _, state := range []string{"as it was filled", "analyzed"} {
		for _, view := range collect[string](s, `SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'mesh'::regnamespace AND c.relkind = 'v'
			AND obj_description(c.oid) NOT LIKE 'Deprecated%' ORDER BY 1`) {
			requireNotCompiled(t, s, state, "SELECT * FROM mesh."+view)
		}
		for _, change := range []string{
			"UPDATE mesh.route_destinations SET weight = 100",
			"UPDATE mesh.route_destinations SET weight = 100 WHERE virtual_service = 'service-7'",
			"UPDATE mesh.http_route_backends SET weight = 100",
			"UPDATE mesh.http_route_backends SET weight = 100 WHERE http_route = 'service-7'",
			"UPDATE mesh.service_endpoints SET weight = 1 WHERE address = '10.1.0.1'",
			"UPDATE mesh.virtual_services SET hosts = '{a.test}'",
			"DELETE FROM mesh.subsets WHERE name = 'v1'",
			"DELETE FROM mesh.resources",
		} {
			requireNotCompiled(t, s, state, change)
		}
		s.Exec("ANALYZE")
	}
}

func requireNotCompiled(t *testing.T, s session, state, query string) {
	t.Helper()
	plan := value[string](s, "EXPLAIN (FORMAT JSON) "+query)
	var explained []struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(plan), &explained))
	require.Less(t, explained[0].Plan.Cost, value[float64](s, "SELECT current_setting('jit_above_cost')::float8"), "%s: %s", state, query)
}

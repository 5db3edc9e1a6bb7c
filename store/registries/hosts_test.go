package registries_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/registries"
)

// What one asks of a host costs as much as that host has, however many others there are in the
// database and in registries, and whatever is known of them.
func TestAHostIsFoundAmongMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const many = 500
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec)
		SELECT 'ServiceEntry', 'shop', 'own-' || i, jsonb_build_object('hosts', ARRAY['own-' || i || '.example.com'], 'resolution', 'DNS') FROM generate_series(1, $1::int) i`, many)
	all := make([]registries.Entry, 0, many)
	for i := range many {
		all = append(all, entry(fmt.Sprint("consul.s", i), "1", fmt.Sprint("s", i, ".example.com"), "10.0.0.1", "10.0.0.2"))
	}
	b.writes(registries.Changes{Entries: all})
	const read = `SELECT sum(pg_stat_get_xact_tuples_returned(i)) FROM pg_index, unnest(ARRAY[indrelid, indexrelid]) i
		WHERE indrelid = ANY ('{mesh.resources,mesh_internal.links,mesh_internal.registry_entries,mesh_internal.registry_links}'::regclass[])`
	for range 2 {
		for query, rows := range map[string]int{
			"SELECT name FROM mesh.services WHERE host = 's77.example.com'":     1,
			"SELECT address FROM mesh.endpoints WHERE host = 's77.example.com'": 2,
			"SELECT name FROM mesh.services WHERE host = 'own-77.example.com'":  1,
		} {
			b.db.Exec("BEGIN")
			had := storetest.Value[int64](b.db, read) // by statements before, which Postgres has not counted yet
			require.Len(t, storetest.Collect[string](b.db, query), rows, query)
			require.Less(t, storetest.Value[int64](b.db, read)-had, int64(50), query)
			b.db.Exec("ROLLBACK")
		}
		b.db.Exec("ANALYZE")
	}
}

// What a transaction has changed shows in it before it commits.
func TestATransactionSeesTheServicesThatItChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := func(host string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"hosts": [%q], "resolution": "DNS", %s}`, host, onePort))
	}
	b.db.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'shop', 'a', $1), ('ServiceEntry', 'shop', 'b', $2)", spec("a.example.com"), spec("b.example.com"))
	const hosts = "SELECT host FROM mesh.services ORDER BY host"
	b.db.Exec("BEGIN")
	b.db.Exec("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'shop', 'c', $1)", spec("C.example.com"))
	b.db.Exec("UPDATE mesh.resources SET spec = $1 WHERE name = 'a'", spec("other.example.com"))
	b.db.Exec("DELETE FROM mesh.resources WHERE name = 'b'")
	b.shows(hosts, "c.example.com", "other.example.com")
	b.shows("SELECT name FROM mesh.services WHERE host = 'c.example.com'", "c")
	b.db.Exec("COMMIT")
	b.shows(hosts, "c.example.com", "other.example.com")
}

// Whether another entry of its name counts before a service is looked into where there is one alone:
// for the problems of a mesh that is asked of each route to a registry's host.
func TestServicesWithoutRivalsCostProblemsLittle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all []registries.Entry
	for i := range 20 {
		all = append(all, entry(fmt.Sprint("consul.s", i), "1", fmt.Sprint("s", i, ".example.com"), "10.0.0.1"))
		b.route(fmt.Sprint("to-", i), fmt.Sprintf(`{"host": "s%d.example.com", "port": {"number": 80}}`, i))
	}
	b.writes(registries.Changes{Entries: all})
	b.db.Exec("SET track_functions = 'all'")
	asked := func() (asked int64) {
		b.db.Exec("BEGIN")
		b.finds()
		asked = storetest.Value[int64](b.db, "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_xact_user_functions WHERE funcname = 'outranker_of'")
		require.NotZero(t, storetest.Value[int64](b.db, "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'registry_services'"), "the routes lead to services of the registry")
		b.db.Exec("ROLLBACK")
		return asked
	}
	require.Zero(t, asked())
	b.writesTo(registries.Registry{Name: "zoo", Rank: 2}, all[0])
	require.NotZero(t, asked(), "one has a rival")
}

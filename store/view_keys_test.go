package store_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mesh.view_keys has the key of each view that can be written to, and tenants see it: the columns are
// there, no two rows have the same, none has NULL in it, and no column is too many.
func TestKeysOfViews(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	sample, err := os.ReadFile("../docs/bookinfo.sql")
	require.NoError(t, err)
	y.owner.Exec(string(sample))
	y.owner.Exec(`INSERT INTO mesh.http_routes (namespace, name, rules) SELECT namespace, name, jsonb_build_array(rule, rule)
		FROM unnest('{a,b}'::text[]) namespace, unnest('{c,d}'::text[]) name,
			(VALUES ('{"backendRefs": [{"name": "e", "port": 80}, {"name": "f", "port": 80}]}'::jsonb)) r (rule)`)
	y.owner.Exec(`INSERT INTO mesh.virtual_services (namespace, name, hosts, http, tcp) SELECT namespace, name, ARRAY[name || '.example'], jsonb_build_array(route, route), jsonb_build_array(route, route)
		FROM unnest('{a,b}'::text[]) namespace, unnest('{c,d}'::text[]) name,
			(VALUES ('{"route": [{"destination": {"host": "e"}, "weight": 1}, {"destination": {"host": "f"}, "weight": 1}]}'::jsonb)) r (route)`)
	tenant := y.tenant("tenant", [2]string{"a", "read"})

	views := collect[string](tenant, "SELECT view FROM mesh.view_keys ORDER BY 1")
	require.Equal(t, collect[string](y.owner, "SELECT view FROM mesh_internal.editable_views ORDER BY 1"), views)
	for _, view := range views {
		key := collect[string](tenant, "SELECT unnest(key) FROM mesh.view_keys WHERE view = $1", view)
		require.Zero(t, duplicates(y.owner, view, key), view)
		if !slices.Contains([]string{"virtual_services", "routes", "route_destinations", "http_routes", "http_route_backends"}, view) {
			continue // the sample is too small for more
		}
		for i := range key {
			require.NotZero(t, duplicates(y.owner, view, slices.Delete(slices.Clone(key), i, i+1)), "%s without %s", view, key[i])
		}
	}
}

// duplicates counts the rows of a view whose key another row has, or that have none.
func duplicates(s session, view string, key []string) int {
	return value[int](s, fmt.Sprintf("SELECT count(*) - count(DISTINCT (%[2]s)) FILTER (WHERE (%[2]s) IS NOT NULL) FROM mesh.%[1]s", view, "ROW("+strings.Join(key, ", ")+")"))
}

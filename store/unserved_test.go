package store_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// workload writes a WorkloadEntry with the health that its machine says.
func (s session) workload(namespace, name, app, health string) {
	s.T.Helper()
	s.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec, labels, annotations)
		VALUES ('WorkloadEntry', $1, $2, '{"address": "10.0.0.1"}', jsonb_build_object('app', $3::text), jsonb_strip_nulls(jsonb_build_object('mesh.pgmesh.io/health', nullif($4, ''))))
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET annotations = EXCLUDED.annotations`, namespace, name, app, health)
}

const unservedQuery = `WHERE code = 'no-healthy-endpoint'`

// unserved lists the services that nobody serves, with what is wrong with their endpoints.
func (s session) unserved() []string {
	s.T.Helper()
	rows, err := s.Conn.Query(s.T.Context(), `SELECT severity || ' ' || kind || ' ' || namespace || '/' || name || ': ' || message FROM mesh.problems `+unservedQuery+` ORDER BY 1`)
	require.NoError(s.T, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.T, err)
	return list
}

func TestServicesThatNobodyServesAreProblems(t *testing.T) {
	t.Parallel()
	s := connect(t, pgtest.New(t))
	service := func(namespace, name, rest string) {
		s.create("ServiceEntry", namespace, name, fmt.Sprintf(`{"hosts": ["%s.%s.mesh"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], %s}`, name, namespace, rest))
	}
	service("shop", "cart", `"workloadSelector": {"labels": {"app": "cart"}}`)
	service("shop", "listed", `"endpoints": [{"address": "10.0.0.1", "labels": {"mesh.pgmesh.io/health": "unhealthy"}}, {"address": "10.0.0.2"}]`)
	service("shop", "empty", `"workloadSelector": {"labels": {"app": "nobody"}}`)
	s.workload("shop", "cart-1", "cart", "unhealthy: GET /healthz: 500")
	s.workload("shop", "cart-2", "cart", "")
	s.workload("bank", "cart-3", "cart", "draining")
	require.Empty(t, s.unserved(), "each has one that is well, or none at all")

	// All of them fall ill or are drained, in a transaction that is refused for any warning: it is told of none.
	tx, err := s.Conn.Begin(t.Context())
	require.NoError(t, err)
	s.Exec(`SET LOCAL mesh.strict = 'warning'`)
	s.workload("shop", "cart-2", "cart", "draining")
	s.Exec(`UPDATE mesh.resources SET spec = jsonb_set(spec, '{endpoints,1,labels}', '{"mesh.pgmesh.io/health": "unknown"}') WHERE name = 'listed'`)
	var pending int
	require.NoError(t, s.Conn.QueryRow(t.Context(), `SELECT count(*) FROM mesh.pending_problems() `+unservedQuery).Scan(&pending))
	require.Zero(t, pending)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{
		"warning ServiceEntry shop/cart: none of its endpoints takes requests: 1 draining, 1 unhealthy",
		"warning ServiceEntry shop/listed: none of its endpoints takes requests: 1 unhealthy, 1 unknown",
	}, s.unserved())
	var conditions string
	require.NoError(t, s.Conn.QueryRow(t.Context(), `SELECT conditions::text FROM mesh.resource_status WHERE kind = 'ServiceEntry' AND name = 'cart'`).Scan(&conditions))
	require.Contains(t, conditions, `"NoHealthyEndpoint"`)
	require.Contains(t, conditions, `"HasWarnings"`)

	s.workload("shop", "cart-1", "cart", "")
	require.Equal(t, []string{"warning ServiceEntry shop/listed: none of its endpoints takes requests: 1 unhealthy, 1 unknown"}, s.unserved())

	// Those that an annotation selects beside the ones that are listed count as well.
	s.Exec(`UPDATE mesh.resources SET annotations = '{"mesh.pgmesh.io/workload-selector": "app=cart"}' WHERE name = 'listed'`)
	require.Empty(t, s.unserved())
}

package serve_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// shows waits until a query answers with these lines.
func shows(db storetest.Session, query string, lines ...string) {
	db.T.Helper()
	poll.Eventually(db.T, func(context.Context) error {
		if found := storetest.Collect[string](db, query); strings.Join(found, "\n") != strings.Join(lines, "\n") {
			return fmt.Errorf("%s answers %q, and not %q", query, found, lines)
		}
		return nil
	})
}

const shownServices = `SELECT concat_ws(' ', host, name, origin, entry, endpoints, healthy, stale_since IS NOT NULL) FROM mesh.services ORDER BY 1`

func TestWhatARegistryHasIsInSQL(t *testing.T) {
	t.Parallel()
	database, in := pgtest.New(t), newInventory(t)
	db := storetest.Connect(t, database)
	in.has("one.yaml", "web", "pay")
	in.has("two.yaml", "cart")
	server := launch(t, serve.Options{Database: database, Registries: in.registries(), Name: "first"})
	shows(db, shownServices, "cart.example.com inventory.cart inventory two.yaml 1 1 f", "pay.example.com inventory.pay inventory one.yaml 1 1 f", "web.example.com inventory.web inventory one.yaml 1 1 f")
	shows(db, "SELECT concat_ws(' ', name, rank, server, state, resources) FROM mesh.registries", "inventory 1 first current 3")

	const rows = "SELECT name || ' ' || xmin FROM mesh_internal.registry_entries ORDER BY 1"
	before, registry := storetest.Collect[string](db, rows), storetest.Value[string](db, "SELECT xmin::text FROM mesh_internal.registries")
	in.put("two.yaml", `services: [{name: cart, hosts: [cart.example.com], ports: [{number: 80, protocol: HTTP}], instances: [{address: 10.0.0.1, health: unhealthy}, {address: 10.0.0.2}]}]`)
	shows(db, "SELECT concat_ws(' ', address, ports, health) FROM mesh.endpoints WHERE host = 'cart.example.com' ORDER BY 1", `10.0.0.1 {"http-80": 80} unhealthy`, `10.0.0.2 {"http-80": 80} healthy`)
	after := storetest.Collect[string](db, rows)
	require.NotEqual(t, before[0], after[0])
	require.Equal(t, before[1:], after[1:], "a change of an instance writes one row")
	require.Equal(t, registry, storetest.Value[string](db, "SELECT xmin::text FROM mesh_internal.registries"))
	require.Zero(t, db.Newest(), "nothing of it is a revision")
	_, metrics := server.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_origin_mirrored{registry="inventory"} 1`)

	in.put("two.yaml", "services: {")
	shows(db, "SELECT bad_entries::text FROM mesh.registries", "1")
	shows(db, "SELECT concat_ws(' ', kind, name) FROM mesh.problems WHERE code = 'bad-entry' AND message LIKE '%two.yaml%'", "Registry inventory")
	require.Equal(t, after, storetest.Collect[string](db, rows), "the last good state stays")
	in.put("two.yaml", `services: [{name: cart, hosts: ['not a host!'], ports: [{number: 80}]}]`)
	shows(db, "SELECT concat_ws(' ', kind, namespace, name) FROM mesh.problems WHERE code = 'bad-entry'", "ServiceEntry default inventory.cart")
	in.has("two.yaml")
	shows(db, "SELECT bad_entries::text || resources FROM mesh.registries", "02")

	back := in.away()
	shows(db, "SELECT state || (reason <> '') || (stale_since IS NOT NULL) FROM mesh.registries", "staletruetrue")
	back()
	shows(db, "SELECT state || reason FROM mesh.registries", "current")
}

// While one server mirrors a registry, others do not. When it ends, another goes on.
func TestAnotherServerGoesOnShowingARegistry(t *testing.T) {
	t.Parallel()
	database, in := pgtest.New(t), newInventory(t)
	db := storetest.Connect(t, database)
	in.has("one.yaml", "web")
	first := launch(t, serve.Options{Database: database, Registries: in.registries(), Name: "first"})
	shows(db, "SELECT server || state FROM mesh.registries", "firstcurrent")
	launch(t, serve.Options{Database: database, Registries: in.registries(), Name: "second"})
	in.has("one.yaml", "web", "more")
	shows(db, "SELECT server || resources FROM mesh.registries", "first2")
	rows := storetest.Collect[string](db, "SELECT xmin::text FROM mesh_internal.registry_entries ORDER BY name")
	first.end()
	shows(db, "SELECT server || state FROM mesh.registries", "secondcurrent")
	in.has("one.yaml", "web", "more", "last")
	shows(db, "SELECT server || resources FROM mesh.registries", "second3")
	require.Subset(t, storetest.Collect[string](db, "SELECT xmin::text FROM mesh_internal.registry_entries"), rows, "what the other has written is not written again")
}

// A row of the database that claims a rank, as rows could once, is the mesh's own all the same.
func TestARowThatClaimsToBeOfARegistryIsTheMeshsOwn(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	db := storetest.Connect(t, database)
	const row = `INSERT INTO mesh.resources (kind, name, annotations, spec) VALUES ('ServiceEntry', 'web', %s, '{"hosts": ["web.example.com"], "ports": [{"name": "http", "number": 80, "protocol": "HTTP"}]}')`
	for _, key := range []string{"origin", "origin-entry", "origin-rank"} {
		refused := db.Refused(fmt.Sprintf(row, `'{"pgmesh.io/`+key+`": "1"}'`))
		require.Equal(t, `ServiceEntry default/web: metadata.annotations["pgmesh.io/`+key+`"]: is for resources of registries, which servers mark themselves`, refused.Message)
		require.Equal(t, "leave it out; what a registry has is changed there", refused.Hint)
	}
	db.Exec(`SET session_replication_role = replica`)
	db.Exec(`INSERT INTO mesh.resources (kind, api_group, namespace, name, annotations, spec, generation, created_at, updated_at, xid, rules)
		SELECT 'ServiceEntry', 'networking.istio.io', 'default', 'web', '{"pgmesh.io/origin": "x", "pgmesh.io/origin-rank": "7", "mine": "1"}', '{"hosts": ["web.example.com"], "ports": [{"name": "http", "number": 80, "protocol": "HTTP"}]}', 1, now(), now(), pg_current_xact_id(), 0`)
	db.Exec(`RESET session_replication_role`)
	shows(db, "SELECT path FROM mesh.unsound ORDER BY 1", `metadata.annotations["pgmesh.io/origin"]`, `metadata.annotations["pgmesh.io/origin-rank"]`)
	b := connect(t, launch(t, serve.Options{Database: database}).MCP.String(), nil).next()
	require.Equal(t, []string{"web"}, namesOf(b))
	require.Equal(t, map[string]string{"mine": "1"}, b.Changes[0].Resource.Annotations)
	db.Exec(`UPDATE mesh.resources SET annotations = '{}'`)
	shows(db, "SELECT path FROM mesh.unsound")
}

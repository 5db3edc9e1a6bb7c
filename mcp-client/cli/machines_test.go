package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
)

// register registers the machine cart-1 of the group shop/cart, which is gone, and cart-2, which is connected
// and refused for another group.
func (m *mesh) register(s *store.Store) {
	m.t.Helper()
	keeper := store.Keeper{1}
	first := store.WorkloadChange{
		Namespace: "shop", Group: "cart", Machine: "cart-1", ServiceAccount: "default", Since: 1, Address: "10.0.0.1", Health: "healthy", State: store.WorkloadHere,
		Labels: map[string]string{"version": "v1"}, Ports: map[string]uint32{"http": 8080, "admin": 9000}, Locality: "eu/a",
	}
	second, refused := first, first
	second.Machine, second.Address, second.Health, second.Detail = "cart-2", "10.0.0.2", "unhealthy", "GET /: 503"
	refused.Machine, refused.Group, refused.Address = "cart-2", "carts", "10.0.0.2"
	for _, of := range [][]store.WorkloadChange{{first}, {second, refused}} {
		id, err := s.OpenWorkloadSession(m.t.Context(), keeper, "eu-mcp", "eu-1")
		require.NoError(m.t, err)
		_, _, err = s.RegisterWorkloads(m.t.Context(), keeper, id, 1, of, "eu-1")
		require.NoError(m.t, err)
		if of[0].Machine == "cart-1" {
			require.NoError(m.t, s.EndWorkloadSessions(m.t.Context(), keeper, []int64{id}))
		}
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.execute(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`)
	require.Contains(t, m.ok("machines", "list", "-A"), "NAMESPACE")
	m.register(m.store())

	list := m.ok("machines", "list", "-A")
	require.Regexp(t, `shop +cart-1 +cart +10.0.0.1 +gone +healthy `, list)
	require.Regexp(t, `shop +cart-2 +cart +10.0.0.2 +here +unhealthy `, list)
	require.Regexp(t, `shop +cart-2 +carts +10.0.0.2 +refused +healthy `, list)
	require.NotContains(t, m.ok("machines", "list", "-A", "--group", "carts"), "cart-1")
	require.NotContains(t, m.ok("machines", "list", "-n", "default"), "cart-1")
	require.Regexp(t, `cart-10.0.0.1 +- +eu/a +default +- +eu-1 +eu-mcp`, m.ok("machines", "list", "-A", "-o", "wide"))
	require.Equal(t, "cart-1\n", m.ok("machines", "list", "-A", "--group", "cart", "-o", "jsonpath={[0].machine}{\"\\n\"}"))
	var tree []map[string]any
	require.NoError(t, json.Unmarshal([]byte(m.ok("machines", "show", "cart-2", "-o", "json")), &tree))
	require.Len(t, tree, 2)
	require.Equal(t, "GET /: 503", tree[0]["detail"])
	require.Contains(t, tree[1]["refused"], "there is no WorkloadGroup shop/carts: write it")

	shown := m.ok("machines", "show", "cart-2")
	require.Regexp(t, `Entry: +cart-10.0.0.2\n`, shown)
	require.Regexp(t, `Entry: +none\n`, shown)
	require.Regexp(t, `Ports: +admin=9000, http=8080\n`, shown)
	require.Regexp(t, `Discovery: +eu-1, through eu-mcp\n`, shown)
	require.Contains(t, m.ok("machines", "show", "cart-2", "-o", "yaml"), "machine: cart-2")

	require.Contains(t, m.run("machines", "show", "cart-3", "-n", "shop").err, "no machine cart-3 has registered a service in shop")
	require.Contains(t, m.run("machines", "remove", "cart-1").err, "name one namespace by -n")
	require.Contains(t, m.run("machines", "remove", "-n", "shop", "cart-3").err, "there is no machine cart-3 in the namespace shop")
	require.Contains(t, m.run("machines", "remove", "-n", "shop", "cart-2").err, "the machine cart-2 is connected to the discovery eu-1 (stop its agent, or revoke it")
	require.Equal(t, "removed shop/cart-1, with one service\n", m.ok("machines", "remove", "-n", "shop", "cart-1"))
	require.Equal(t, "removed shop/cart-2, with 2 services\n", m.ok("machines", "remove", "-n", "shop", "cart-2", "--force"))
	require.NotContains(t, m.ok("machines", "list", "-A"), "cart-")
	var newest int64
	m.query("SELECT max(revision) FROM mesh.transactions", &newest)
	m.await(newest)
	require.Empty(t, m.ok("get", "workloadentries", "-A", "-o", "name"))
}

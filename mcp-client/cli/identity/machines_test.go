package identity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestMachines(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Execute(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`)
	require.Contains(t, m.OK("machines", "list", "-A"), "NAMESPACE")
	m.Register(m.Store())

	list := m.OK("machines", "list", "-A")
	require.Regexp(t, `shop +cart-1 +cart +10.0.0.1 +gone +healthy `, list)
	require.Regexp(t, `shop +cart-2 +cart +10.0.0.2 +here +unhealthy `, list)
	require.Regexp(t, `shop +cart-2 +carts +10.0.0.2 +refused +healthy `, list)
	require.Regexp(t, `cart-2 +cart +10.0.0.2 +here +unhealthy +1970-01-01T00:00Z\n`, list, "here since its stream began")
	require.NotContains(t, m.OK("machines", "list", "-A", "--group", "carts"), "cart-1")
	require.NotContains(t, m.OK("machines", "list", "-n", "default"), "cart-1")
	require.Regexp(t, `cart-10.0.0.1 +- +eu/a +default +- +eu-1 +eu-mcp`, m.OK("machines", "list", "-A", "-o", "wide"))
	require.Regexp(t, `eu-1 +eu-mcp +20\d\d-\S+Z +GET /: 503\n`, m.OK("machines", "list", "-A", "-o", "wide"))
	require.Equal(t, "cart-1\n", m.OK("machines", "list", "-A", "--group", "cart", "-o", "jsonpath={[0].machine}{\"\\n\"}"))
	var tree []map[string]any
	require.NoError(t, json.Unmarshal([]byte(m.OK("machines", "show", "cart-2", "-o", "json")), &tree))
	require.Len(t, tree, 2)
	require.Equal(t, "GET /: 503", tree[0]["detail"])
	require.Contains(t, tree[1]["refused"], "there is no WorkloadGroup shop/carts: write it")

	shown := m.OK("machines", "show", "cart-2")
	require.Regexp(t, `Entry: +cart-10.0.0.2\n`, shown)
	require.Regexp(t, `Entry: +none\n`, shown)
	require.Regexp(t, `Ports: +admin=9000, http=8080\n`, shown)
	require.Regexp(t, `Discovery: +eu-1, through eu-mcp\n`, shown)
	require.Contains(t, m.OK("machines", "show", "cart-2", "-o", "yaml"), "machine: cart-2")
	for _, name := range []string{"shop/cart-2", "cart-2.shop", "shop/" + entryOf(shown)} {
		require.Equal(t, shown, m.OK("machines", "show", name), name)
	}

	const orphaned = "warning: WorkloadGroup shop/cart: the machine cart-2 is registered for it, and gets no requests any more (drain machines before (mesh-agent drain); the group written again takes them back)\n"
	require.Equal(t, orphaned, m.Run("delete", "wg/cart", "-n", "shop", "--dry-run").Err)
	require.Equal(t, orphaned, m.Run("delete", "wg/cart", "-n", "shop").Err)
	m.Execute(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`)
	require.Contains(t, m.Run("machines", "show", "cart-3", "-n", "shop").Err, "no machine cart-3 has registered a service in shop")
	require.Contains(t, m.Run("machines", "remove", "cart-1").Err, "name one namespace by -n")
	require.Contains(t, m.Run("machines", "remove", "-n", "shop", "cart-3").Err, "there is no machine cart-3 in the namespace shop")
	require.Contains(t, m.Run("machines", "remove", "-n", "shop", "cart-2").Err, "the machine cart-2 is connected to the discovery eu-1 (stop its agent, or revoke it")
	require.Contains(t, m.Run("machines", "remove", "shop/cart-1", "cart-2").Err, "name one namespace by -n, or write NAMESPACE/MACHINE")
	require.Contains(t, m.Run("machines", "remove", "-n", "shop", "default/cart-1").Err, "there is no machine cart-1 in the namespace default")
	require.Equal(t, "removed shop/cart-1, with one service\n", m.OK("machines", "remove", "shop/cart-1"), "the first try has removed none")
	require.Equal(t, "removed shop/cart-2, with 2 services\n", m.OK("machines", "remove", "-n", "shop", "cart-2", "--force"))
	require.NotContains(t, m.OK("machines", "list", "-A"), "cart-")
	var newest int64
	m.Query("SELECT max(revision) FROM mesh_internal.transactions", &newest)
	m.Await(newest)
	require.Empty(t, m.OK("get", "workloadentries", "-A", "-o", "name"))
}

// entryOf is the WorkloadEntry that machines show names.
func entryOf(shown string) string {
	for line := range strings.Lines(shown) {
		if entry, is := strings.CutPrefix(line, "Entry:"); is {
			return strings.TrimSpace(entry)
		}
	}
	return ""
}

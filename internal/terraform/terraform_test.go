package terraform_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds"
)

// Each resource has an address of its own that Terraform takes, whatever names there are.
func TestEachResourceHasItsOwnAddress(t *testing.T) {
	t.Parallel()
	key := func(kind, namespace, name string) kinds.Key {
		k, err := kinds.ByName(kind)
		require.NoError(t, err)
		return kinds.Key{Kind: k, Namespace: namespace, Name: name}
	}
	all := []kinds.Key{
		key("vs", "shop", "reviews"), key("dr", "shop", "reviews"), key("vs", "shop", "cart"), key("vs", "test", "cart"),
		key("vs", "shop", "1.example.com"), key("vs", "a-b", "x"), key("vs", "a", "x"), key("vs", "a.b", "x"), key("vs", "z", "a_x"),
		key("gateways.networking.istio.io", "shop", "edge"), key("gateways.gateway.networking.k8s.io", "shop", "edge"), key("gatewayclass", "", "pgmesh"),
	}
	text := terraform.Imports(all)
	blocks := regexp.MustCompile(`import \{\n  to = (\S+)\n  id = "(\S+)"\n\}\n`).FindAllStringSubmatch(text, -1)
	require.Len(t, blocks, len(all), text)
	address := regexp.MustCompile(`^pgmesh_[a-z0-9_]+\.[A-Za-z_][A-Za-z0-9_-]*$`)
	seen := map[string]bool{}
	var to []string
	for i, b := range blocks {
		require.Regexp(t, address, b[1])
		require.False(t, seen[b[1]], b[1])
		seen[b[1]] = true
		require.Equal(t, all[i].FullName(), b[2])
		to = append(to, b[1])
	}
	require.Equal(t, []string{
		"pgmesh_virtual_service.reviews", "pgmesh_destination_rule.reviews", "pgmesh_virtual_service.shop_cart", "pgmesh_virtual_service.test_cart",
		"pgmesh_virtual_service._1_example_com", "pgmesh_virtual_service.a-b_x", "pgmesh_virtual_service.a_x", "pgmesh_virtual_service.a_b_x", "pgmesh_virtual_service.a_x_2",
		"pgmesh_gateway.edge", "pgmesh_gateway_api_gateway.edge", "pgmesh_gateway_class.pgmesh",
	}, to)
}

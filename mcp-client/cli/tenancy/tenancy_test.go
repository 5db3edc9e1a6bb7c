package tenancy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestQuotas(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "cart", "v1.default.svc.cluster.local"))
	require.Contains(t, m.OK("quota", "list", "shop"), "shop        1           5000   0%")
	require.Equal(t, "set the quota of shop\n", m.OK("quota", "set", "shop", "--resources", "2", "--size", "10KiB", "--daily", "3MiB"))
	require.Equal(t, "set the quota of all namespaces\n", m.OK("quota", "set", "--all-namespaces", "--resource-size", "512KiB"))
	require.Equal(t, "1 2 10240 524288 3145728", m.OK("quota", "list", "shop", "-o", "jsonpath={[0].resources} {[0].maxResources} {[0].maxBytes} {[0].resourceMaxBytes} {[0].maxDailyBytes}"))
	m.OK("quota", "reset", "shop")
	require.Contains(t, m.OK("quota", "list", "shop"), "5000   0%")
	require.Contains(t, m.OK("quota", "list", "shop"), "512KiB")
	for _, wrong := range [][]string{
		{"set", "--resources", "5"},
		{"set", "shop"},
		{"set", "shop", "--resources", "0"},
		{"set", "shop", "--size", "12 parsecs"},
		{"set", "shop", "--size", "-1KiB"},
		{"set", "shop", "--all-namespaces", "--resources", "5"},
		{"reset"},
		{"set", "Shop!", "--resources", "5"},
	} {
		require.NotZero(t, m.Run(append([]string{"quota"}, wrong...)...).Code, wrong)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: e, namespace: evil}, spec: {hosts: [www.shop.example], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}}")
	r := m.Run("hosts", "grant", "shop", "*.shop.example", "10.1.2.3/16")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "shop owns *.shop.example, 10.1.2.3/16\n", r.Out)
	require.Contains(t, r.Err, "1 resources claim what others own")
	require.Equal(t, "nobody owns discovery.example\n", m.OK("hosts", "reserve", "discovery.example"))
	require.Equal(t, "HOSTS               NAMESPACE\n*.shop.example      shop\n10.1.0.0/16         shop\ndiscovery.example   -\n", m.OK("hosts", "list"))
	for host, owner := range map[string]string{
		"WWW.shop.example": "shop owns WWW.shop.example\n", "10.1.9.9": "shop owns 10.1.9.9\n", "discovery.example": "nobody may claim discovery.example\n",
		"elsewhere.example": "everybody may claim elsewhere.example\n",
	} {
		require.Equal(t, owner, m.OK("hosts", "owner", host))
	}
	missing := m.Run("hosts", "revoke", "10.1.0.0/16", "never.example")
	require.NotZero(t, missing.Code)
	require.Contains(t, missing.Err, `nobody was granted "never.example": nothing was revoked`)
	m.OK("hosts", "revoke", "10.1.0.0/16", "discovery.example")
	require.Equal(t, "HOSTS            NAMESPACE\n*.shop.example   shop\n", m.OK("hosts", "list"))
	require.Contains(t, m.Run("hosts", "grant", "shop", "a b").Err, "no pattern of hosts")
}

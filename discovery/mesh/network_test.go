package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// crossing is a service that its label makes the gateways of a network; more are further labels.
func crossing(name, namespace, network, more string, endpoints ...string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: %[2]s, labels: {topology.istio.io/network: %[3]s%[4]s}}
spec: {hosts: [%[1]s.mesh], resolution: STATIC, ports: [{number: 15443, name: tls, protocol: TLS}], endpoints: [%[5]s]}
`, name, namespace, network, more, strings.Join(endpoints, ", "))
}

func networks(text string) string {
	return "---\napiVersion: core/v1alpha1\nkind: MeshNetworks\nmetadata: {name: networks, namespace: istio-system}\nspec: {networks: {" + text + "}}\n"
}

const unwell = ", labels: {mesh.pgmesh.io/health: unhealthy}"

func TestALabelMakesAServiceTheGatewaysOfANetwork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry    string
		gateways []mesh.NetworkGateway
	}{
		"one":           {crossing("a", "istio-system", "far", "", "{address: 192.0.2.1}"), []mesh.NetworkGateway{{Address: "192.0.2.1", Port: 15443}}},
		"behind a port": {crossing("a", "istio-system", "far", "", "{address: 192.0.2.1, ports: {tls: 443}}"), []mesh.NetworkGateway{{Address: "192.0.2.1", Port: 443}}},
		"unwell":        {crossing("a", "istio-system", "far", "", "{address: 192.0.2.1"+unwell+"}"), []mesh.NetworkGateway{{Address: "192.0.2.1", Port: 15443, Unhealthy: true}}},
		"of two services": {
			crossing("a", "istio-system", "far", "", "{address: 192.0.2.1"+unwell+"}", "{address: 192.0.2.2}") + crossing("b", "istio-system", "far", "", "{address: 192.0.2.1}"),
			[]mesh.NetworkGateway{{Address: "192.0.2.1", Port: 15443}, {Address: "192.0.2.2", Port: 15443}},
		},
		"of a tenant":     {crossing("a", "shop", "far", "", "{address: 192.0.2.1}"), nil},
		"without a port":  {crossing("a", "istio-system", "far", ", networking.istio.io/gatewayPort: '80'", "{address: 192.0.2.1}"), nil},
		"without a label": {entry("a", "istio-system", "hosts: [a.mesh], endpoints: [{address: 192.0.2.1}], ports: [{number: 15443, name: tls, protocol: TLS}]"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := build(t, c.entry)
			require.Equal(t, c.gateways, m.NetworkGateways("far"))
			require.Equal(t, c.gateways != nil, m.BehindGateways("far"))
			require.Equal(t, c.gateways != nil, m.HasNetworkGateways())
		})
	}
}

func TestANetworkThatLostItsGatewaysIsBehindThemStill(t *testing.T) {
	t.Parallel()
	text := crossing("a", "istio-system", "far", "", "{address: 192.0.2.1}") + networks("other: {gateways: [{registryServiceName: nobody.mesh, port: 15443}]}")
	before, after := afterEdit(t, text, crossing("a", "istio-system", "far", ""))
	require.Len(t, before.NetworkGateways("far"), 1)
	for _, network := range []string{"far", "other"} {
		require.Empty(t, after.NetworkGateways(network))
		require.True(t, after.BehindGateways(network))
	}
	require.False(t, after.BehindGateways("open"))
	require.EqualValues(t, 1, after.NetworkScale())
}

func TestWeightsAreSpreadOverAnyNumberOfGateways(t *testing.T) {
	t.Parallel()
	mesh := func(counts ...int) (scale uint32) {
		var text strings.Builder
		for i, n := range counts {
			gateways := make([]string, n)
			for j := range gateways {
				gateways[j] = fmt.Sprintf("{address: 192.0.%d.%d}", i, j)
			}
			text.WriteString(crossing(fmt.Sprint("gateways-", i), "istio-system", fmt.Sprint("network-", i), "", gateways...))
		}
		return build(t, text.String()).NetworkScale()
	}
	require.EqualValues(t, 12, mesh(4, 6, 1))
	require.EqualValues(t, 1<<16, mesh(1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31), "a bound, or all weights would be the largest number")
}

func TestARegistryIsInANetwork(t *testing.T) {
	t.Parallel()
	text := `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s.web, namespace: shop, annotations: {pgmesh.io/origin: %[1]s, pgmesh.io/origin-rank: '1'}}
spec: {hosts: [%[1]s.mesh], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}],
  endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2, network: said}, {address: 10.0.0.3, labels: {topology.istio.io/network: labelled}}]}
`
	m := build(t, fmt.Sprintf(text, "dc1")+fmt.Sprintf(text, "dc2")+
		networks("a: {endpoints: [{fromRegistry: dc1}]}, b: {endpoints: [{fromRegistry: dc1}, {fromCidr: 10.0.0.0/8}]}"))
	for _, s := range m.Services() {
		var found []string
		for _, e := range s.Endpoints {
			found = append(found, m.NetworkOf(e))
		}
		first := map[string]string{"dc1.mesh": "a", "dc2.mesh": "b"}[s.Hostname]
		require.Equal(t, []string{first, "said", "labelled"}, found, s.Hostname)
	}
	require.Equal(t, "what the registry dc1 has is in the network a, which names it, too. Remove it from one of the two", reasons(m)["MeshNetworks istio-system/networks spec.networks.b"])
}

// reasons are those of all problems, by resource and path.
func reasons(m *mesh.Mesh) map[string]string {
	out := map[string]string{}
	for _, p := range m.Problems() {
		out[p.Of.String()+" "+p.Path] = p.Reason
	}
	return out
}

func TestGatewaysThatLeadNowhereAreTold(t *testing.T) {
	t.Parallel()
	told := reasons(build(t, crossing("tenant", "shop", "far", "")+
		crossing("portless", "istio-system", "far", ", networking.istio.io/gatewayPort: '80'")+
		crossing("misspelt", "istio-system", "far", ", networking.istio.io/gatewayPort: http")+
		crossing("right", "istio-system", "far", ", networking.istio.io/gatewayPort: '15443'")+
		entry("plain", "shop", "hosts: [plain.mesh], "+port80)+
		networks("far: {gateways: [{registryServiceName: nobody.mesh, port: 15443}, {registryServiceName: right.mesh, port: 15443}]}")))
	for of, want := range map[string]string{
		"ServiceEntry shop/tenant metadata.labels":             `gateways of services in the namespace "istio-system" alone`,
		"ServiceEntry istio-system/portless metadata.labels":   "it has no port 80",
		"ServiceEntry istio-system/misspelt metadata.labels":   `"http" is no port, and 15443 counts`,
		"MeshNetworks istio-system/networks spec.networks.far": "no service has the host nobody.mesh",
	} {
		require.Contains(t, told[of], want, of)
	}
	require.Len(t, told, 4)
}

func TestAProxyServesWhatIsInItsOwnNetwork(t *testing.T) {
	t.Parallel()
	at := func(name, network string) string {
		return entry(name, "shop", "hosts: ["+name+".mesh], "+port80+", endpoints: [{address: 10.0.0.1, network: '"+network+"'}]")
	}
	m := build(t, at("east", "east")+at("west", "west")+at("anywhere", "")+
		entry("rival", "shop", "hosts: [rival.mesh], ports: [{number: 80, name: tcp, protocol: TCP}], endpoints: [{address: 10.0.0.1, network: far}]"))
	for network, want := range map[string][]string{
		"east": {"anywhere.mesh", "east.mesh"}, "west": {"anywhere.mesh", "west.mesh"}, "": {"anywhere.mesh", "east.mesh", "rival.mesh", "west.mesh"},
	} {
		p := sidecar("shop", nil)
		p.Network = network
		var hosts []string
		for _, target := range m.Targets(p) {
			hosts = append(hosts, target.Service.Hostname)
		}
		require.ElementsMatch(t, want, hosts, network)
	}
	require.Empty(t, reasons(m), "what another network has at the address is nobody's rival")
}

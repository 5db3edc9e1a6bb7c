package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// afterEdit builds a mesh of the first text, and then one with the second added.
func afterEdit(t *testing.T, first, second string) (before, after *mesh.Mesh) {
	t.Helper()
	store := configstore.New()
	before = mesh.Build(apply(t, store, first), nil)
	sidecar := sidecar("default", nil)
	before.Scope(sidecar) // the next mesh takes over what was asked for
	return before, mesh.Build(apply(t, store, second), before)
}

func TestAServiceKeepsItsShapeWhileOnlyEndpointsChange(t *testing.T) {
	t.Parallel()
	const ports = "hosts: [x.example.com], ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: more, protocol: TCP}], "
	const one = "endpoints: [{address: 10.0.0.1, labels: {v: '1'}}]"
	first := entry("x", "default", ports+one)
	for name, c := range map[string]struct {
		second string
		same   bool
	}{
		"address":    {entry("x", "default", ports+"endpoints: [{address: 10.0.0.2, labels: {v: '1'}}]"), true},
		"weight":     {entry("x", "default", ports+"endpoints: [{address: 10.0.0.1, labels: {v: '2'}, weight: 3, locality: a/b}]"), true},
		"none":       {entry("x", "default", ports+"endpoints: []"), true},
		"port":       {entry("x", "default", "hosts: [x.example.com], "+port80+", "+one), false},
		"addresses":  {entry("x", "default", ports+"addresses: [10.1.1.1], "+one), false},
		"visibility": {entry("x", "default", ports+"exportTo: ['.'], "+one), false},
		"names":      {entry("x", "default", ports+"subjectAltNames: [a], "+one), false},
		"location":   {entry("x", "default", ports+"location: MESH_INTERNAL, "+one), false},
		"selector":   {entry("x", "default", ports+"workloadSelector: {labels: {a: b}}"), false},
		"same":       {first, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := afterEdit(t, first, c.second)
			old, now := before.Services()[0], after.Services()[0]
			require.NotSame(t, old, now)
			require.Equal(t, c.same, old.Shape == now.Shape)
			require.Same(t, old.Ports[0], now.Ports[0])
		})
	}
}

func TestWorkloadsThatComeAndGoChangeNoShape(t *testing.T) {
	t.Parallel()
	before, after := afterEdit(t, reviews, `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: two, namespace: default, labels: {app: reviews}}
spec: {address: 10.0.1.2}
`)
	require.NotSame(t, before.Services()[0], after.Services()[0])
	require.Same(t, before.Services()[0].Shape, after.Services()[0].Shape)
}

func TestServicesReachedByWorkloadChangeShapeWithTheirWorkloads(t *testing.T) {
	t.Parallel()
	passing := `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: x, namespace: default}
spec: {hosts: [x.example.com], resolution: NONE, ports: [{number: 80, name: tcp, protocol: TCP}], workloadSelector: {labels: {app: x}}}
`
	workload := `---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: one, namespace: default}
spec: {address: 10.0.1.1, labels: {app: x}}
`
	before, after := afterEdit(t, passing, workload)
	require.NotSame(t, before.Services()[0].Shape, after.Services()[0].Shape)
	shared := func(address string) string {
		return entry("y", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: "+address+"}]")
	}
	before, after = afterEdit(t, passing+shared("10.0.0.5"), shared("10.0.0.6"))
	for i, s := range before.Services() {
		require.Equal(t, s.Resolution != mesh.ResolutionNone, s.Shape == after.Services()[i].Shape)
	}
}

func TestVariantsStayAsLongAsTheirServices(t *testing.T) {
	t.Parallel()
	two := entry("a", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: 10.0.0.1}]") +
		entry("b", "default", "hosts: [x.example.com], ports: [{number: 81, name: more, protocol: TCP}], endpoints: [{address: 10.0.0.2}]")
	p := sidecar("default", nil)
	before, after := afterEdit(t, two, entry("c", "default", "hosts: [y.example.com], "+port80))
	require.Same(t, before.Scope(p).Service("x.example.com"), after.Scope(p).Service("x.example.com"))
	before, after = afterEdit(t, two, entry("a", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: 10.0.0.3}]"))
	old, now := before.Scope(p).Service("x.example.com"), after.Scope(p).Service("x.example.com")
	require.NotSame(t, old, now)
	require.Same(t, old.Shape, now.Shape)
	require.Equal(t, "10.0.0.3", now.Endpoints[0].Address)
}

func TestMergedRulesStayAsLongAsTheirParts(t *testing.T) {
	t.Parallel()
	p := sidecar("default", nil)
	rules := entry("x", "default", "hosts: [x.default.svc.cluster.local], "+port80) +
		rule("a", "default", "host: x, subsets: [{name: v1}]") + rule("b", "default", "host: x, subsets: [{name: v2}]")
	ruleFor := func(m *mesh.Mesh) *mesh.DestinationRule {
		return m.Scope(p).DestinationRule(p, "x.default.svc.cluster.local")
	}
	before, after := afterEdit(t, rules, rule("c", "default", "host: y"))
	require.Same(t, ruleFor(before), ruleFor(after))
	before, after = afterEdit(t, rules, rule("b", "default", "host: x, subsets: [{name: v3}]"))
	require.NotSame(t, ruleFor(before), ruleFor(after))
	require.Equal(t, "v3", ruleFor(after).Spec.GetSubsets()[1].GetName())
}

// Traffic to another network must not go to whoever is first to have a service of that name.
func TestGatewaysOfANetworkAreNotTheOldestService(t *testing.T) {
	t.Parallel()
	gateways := func(host string, entries ...string) []mesh.NetworkGateway {
		return build(t, strings.Join(entries, "")+`---
apiVersion: core/v1alpha1
kind: MeshNetworks
metadata: {name: networks, namespace: istio-system}
spec: {networks: {one: {endpoints: [{fromCidr: 10.0.0.0/8}], gateways: [{registryServiceName: `+host+`, port: 80}]}}}
`).NetworkGateways("one")
	}
	service := func(namespace, host, address string) string {
		return entry("x", namespace, "hosts: ["+host+"], "+port80+", endpoints: [{address: "+address+"}]")
	}
	for host, first := range map[string]string{"gw.example.com": "istio-system", "gw.edge.svc.cluster.local": "edge"} {
		require.Equal(t, []mesh.NetworkGateway{{Address: "10.0.0.1", Port: 80}},
			gateways(host, service("a-evil", host, "10.6.6.6"), service(first, host, "10.0.0.1"), service("z-evil", host, "10.6.6.7")), host)
	}
	require.Equal(t, []mesh.NetworkGateway{{Address: "10.0.0.2", Port: 80}}, gateways("gw.example.com", service("edge", "gw.example.com", "10.0.0.2")))
}

func TestSurroundingsChangeOnlyWithSettingsOfTheWholeMesh(t *testing.T) {
	t.Parallel()
	networks := `---
apiVersion: core/v1alpha1
kind: MeshNetworks
metadata: {name: networks, namespace: istio-system}
spec: {networks: {one: {endpoints: [{fromCidr: 10.0.0.0/8}], gateways: [{registryServiceName: x.example.com, port: 80}]}}}
`
	x := func(address string) string {
		return entry("x", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: "+address+"}]")
	}
	for name, c := range map[string]struct {
		second string
		same   bool
	}{
		"service":    {entry("y", "default", "hosts: [y.example.com], "+port80), true},
		"rule":       {rule("y", "default", "host: x.example.com"), true},
		"gateway":    {x("10.0.0.2"), false},
		"networks":   {networks, true}, // which say the same
		"peers":      {"apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: p, namespace: default}\nspec: {mtls: {mode: STRICT}}\n", false},
		"meshconfig": {"apiVersion: core/v1alpha1\nkind: MeshConfig\nmetadata: {name: c, namespace: istio-system}\nspec: {connectTimeout: 3s}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := afterEdit(t, x("10.0.0.1")+networks, c.second)
			require.Equal(t, c.same, before.Surroundings() == after.Surroundings())
		})
	}
}

func TestAFrontendStaysAsLongAsWhatItExposes(t *testing.T) {
	t.Parallel()
	gateway := `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*.example.com']}]}
`
	virtual := func(name, gateway string) string {
		return "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: " + name + ", namespace: default}\n" +
			"spec: {hosts: [" + name + ".example.com], gateways: [" + gateway + "], http: [{route: [{destination: {host: x.example.com}}]}]}\n"
	}
	router := &mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.1"}, Namespace: "default", Labels: map[string]string{"app": "web"}}
	for name, c := range map[string]struct {
		second string
		same   bool
	}{
		"service":         {entry("x", "default", "hosts: [x.example.com], "+port80), true},
		"rule of another": {virtual("other", "elsewhere"), true},
		"rule":            {virtual("own", "web"), false},
		"gateway":         {gateway, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := configstore.New()
			before := mesh.Build(apply(t, store, gateway+virtual("first", "web")), nil)
			frontend := before.Frontend(router)
			after := mesh.Build(apply(t, store, c.second), before)
			require.Equal(t, c.same, frontend == after.Frontend(router))
		})
	}
}

package push_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

// market is a mesh in which a change of one resource changes one thing: two services and a rule for
// each in the namespace shop, and one in the namespace bank that only bank sees.
const market = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: fruit, namespace: shop}
spec:
  hosts: [fruit.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.1, labels: {version: v1}}, {address: 10.1.0.2, labels: {version: v2}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: bread, namespace: shop}
spec:
  hosts: [bread.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: bread}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: baker, namespace: shop}
spec: {address: 10.1.1.1, labels: {app: bread}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: fruit, namespace: shop}
spec: {host: fruit, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: fruit, namespace: shop}
spec:
  hosts: [fruit]
  http: [{route: [{destination: {host: fruit, subset: v1}, weight: 90}, {destination: {host: fruit, subset: v2}, weight: 10}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vault, namespace: bank}
spec:
  hosts: [vault.bank.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  exportTo: [.]
  ports: [{number: 8080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.2.1}]
`

// openMarket serves the market to a proxy of a namespace, until it has everything.
func openMarket(t *testing.T, namespace string, incremental bool) (*bench, *simulated) {
	t.Helper()
	b := newBench()
	b.apply(t, market)
	e := simulate(t, b.listen(t), &envoy{node("10.9.9.9", namespace), incremental})
	e.connect()
	e.answerAll()
	require.NotEmpty(t, e.has[push.RouteType])
	return b, e
}

// gets counts the resources, and removals, of each type that an Envoy is sent while something
// happens.
func (e *simulated) gets(happen func()) map[string]int {
	e.t.Helper()
	clear(e.received)
	happen()
	e.answerAll()
	maps.DeleteFunc(e.received, func(_ string, n int) bool { return n == 0 })
	return maps.Clone(e.received)
}

// changed changes one resource of the market.
func changed(t *testing.T, b *bench, kind, name string, document string) func() {
	t.Helper()
	return func() {
		b.apply(t, fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: %s\nmetadata:\n  name: %s\n  namespace: shop\n%s", kind, name, document))
	}
}

func TestAResourceWrittenAgainUnchangedSendsNothing(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b, e := openMarket(t, "shop", incremental)
		require.Empty(t, e.gets(func() { b.apply(t, market) }))
	}
}

func TestWhatChangesAndChangesBackBeforeAnyoneAsksSendsNothing(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	clear(e.received)
	e.close()
	changed(t, b, "WorkloadEntry", "baker", "spec: {address: 10.1.1.9, labels: {app: bread}}")()
	b.apply(t, market)
	require.Empty(t, e.gets(e.connect))
}

func TestAnEndpointSendsOneLoadAssignment(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b, e := openMarket(t, "shop", incremental)
		require.Equal(t, map[string]int{push.EndpointType: 1},
			e.gets(changed(t, b, "WorkloadEntry", "baker", "spec: {address: 10.1.1.9, labels: {app: bread}}")), "it moves")
		require.Equal(t, map[string]int{push.EndpointType: 1},
			e.gets(changed(t, b, "WorkloadEntry", "second", "spec: {address: 10.1.1.2, labels: {app: bread}}")), "it comes")
		unwell := `  annotations: {mesh.pgmesh.io/health: "unhealthy: GET /healthz: 500"}` + "\nspec: {address: 10.1.1.2, labels: {app: bread}}"
		require.Equal(t, map[string]int{push.EndpointType: 1}, e.gets(changed(t, b, "WorkloadEntry", "second", unwell)), "it is not well")
		require.Empty(t, e.gets(changed(t, b, "WorkloadEntry", "second", strings.Replace(unwell, "500", "503", 1))), "what is wrong is nobody's business")
		require.Equal(t, map[string]int{push.EndpointType: 1},
			e.gets(changed(t, b, "WorkloadEntry", "second", "spec: {address: 10.1.1.2, labels: {app: bread}}")), "it is well again")
		entry, _ := kinds.Lookup("networking.istio.io", "WorkloadEntry")
		require.Equal(t, map[string]int{push.EndpointType: 1},
			e.gets(func() { b.remove(kinds.Key{Kind: entry, Namespace: "shop", Name: "second"}) }), "it goes")
	}
}

func TestAnEndpointSendsTheLoadAssignmentsOfTheSubsetsThatHaveIt(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	require.Equal(t, map[string]int{push.EndpointType: 2}, e.gets(changed(t, b, "ServiceEntry", "fruit", `
spec:
  hosts: [fruit.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.1, labels: {version: v1}}, {address: 10.1.0.3, labels: {version: v2}}]
`)), "that of the service, and that of v2")
}

func TestAWeightSendsOneRoute(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b, e := openMarket(t, "shop", incremental)
		require.Equal(t, map[string]int{routesOf(e): 1}, e.gets(changed(t, b, "VirtualService", "fruit", `
spec:
  hosts: [fruit]
  http: [{route: [{destination: {host: fruit, subset: v1}, weight: 80}, {destination: {host: fruit, subset: v2}, weight: 20}]}]
`)))
	}
}

// routesOf is the type in which an Envoy gets the routes to a host.
func routesOf(e *simulated) string {
	if e.asked[push.VirtualHostType] {
		return push.VirtualHostType
	}
	return push.RouteType
}

// Envoy makes the cluster again, and then waits for its endpoints.
func TestABalancerSendsOneClusterAndItsEndpoints(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	require.Equal(t, map[string]int{push.ClusterType: 1, push.EndpointType: 1},
		e.gets(changed(t, b, "DestinationRule", "bread", "spec: {host: bread, trafficPolicy: {loadBalancer: {simple: RANDOM}}}")))
}

func TestANewServiceSendsItselfToThoseWhoSeeIt(t *testing.T) {
	t.Parallel()
	const cheese = `
spec:
  hosts: [cheese.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  exportTo: [.]
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.7}]
`
	b, e := openMarket(t, "shop", true)
	abroad := simulate(t, b.listen(t), &envoy{node("10.9.9.8", "bank"), true})
	abroad.connect()
	abroad.answerAll()
	require.Empty(t, abroad.gets(changed(t, b, "ServiceEntry", "cheese", cheese)))
	require.Equal(t, map[string]int{push.ClusterType: 1, push.EndpointType: 1, routesOf(e): 1}, e.gets(func() {}))
}

func TestAServiceThatNobodySeesSendsNothing(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	require.Empty(t, e.gets(func() {
		b.apply(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vault, namespace: bank}
spec:
  hosts: [vault.bank.svc.cluster.local]
  resolution: STATIC
  exportTo: [.]
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.2.2}]
`)
	}))
}

func TestAScopeKeepsOutWhatItDoesNotShow(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	e.gets(changed(t, b, "Sidecar", "default", "spec: {egress: [{hosts: [./bread.shop.svc.cluster.local]}]}"))
	require.Empty(t, e.gets(func() {
		b.apply(t, market)
		changed(t, b, "VirtualService", "fruit", "spec: {hosts: [fruit], http: [{directResponse: {status: 503}}]}")()
		changed(t, b, "DestinationRule", "fruit", "spec: {host: fruit, trafficPolicy: {loadBalancer: {simple: RANDOM}}}")()
	}))
	require.Equal(t, map[string]int{push.EndpointType: 1}, e.gets(changed(t, b, "WorkloadEntry", "baker", "spec: {address: 10.1.1.9, labels: {app: bread}}")))
}

// Versions are hashes of content, so another replica has the same ones.
func TestAProxyThatReconnectsIsSentWhatDiffersEvenByAnotherReplica(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	require.Empty(t, e.gets(e.connect))

	other := newBench()
	other.push(b.standing())
	e.conn = other.listen(t)
	require.Empty(t, e.gets(e.connect))

	e.close()
	changed(t, other, "WorkloadEntry", "baker", "spec: {address: 10.1.1.9, labels: {app: bread}}")()
	require.Equal(t, map[string]int{push.EndpointType: 1}, e.gets(e.connect))
}

func TestAPatchSendsWhatItPatchesToThoseItIsFor(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	abroad := simulate(t, b.listen(t), &envoy{node("10.9.9.8", "bank"), true})
	abroad.connect()
	abroad.answerAll()
	patch := func() {
		b.apply(t, `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: slow, namespace: shop}
spec: {configPatches: [{applyTo: CLUSTER, match: {cluster: {service: bread.shop.svc.cluster.local}}, patch: {operation: MERGE, value: {connect_timeout: 7s}}}]}
`)
	}
	require.Empty(t, abroad.gets(patch))
	require.Equal(t, map[string]int{push.ClusterType: 1, push.EndpointType: 1}, e.gets(func() {}))
}

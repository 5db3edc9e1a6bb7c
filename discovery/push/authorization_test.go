package push_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// guarding is a policy of the namespace shop.
func guarding(name, spec string) string {
	return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: " + name + ", namespace: shop}\nspec: {" + spec + "}\n"
}

// A policy is about incoming requests: it sends one listener to the proxies that it is for, and
// nothing to others.
func TestAPolicySendsTheListenersOfThoseWhomItConcerns(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b, e := openMarket(t, "shop", incremental)
		abroad := simulate(t, b.listen(t), &envoy{node("10.9.9.8", "bank"), incremental})
		abroad.connect()
		abroad.answerAll()
		listeners := map[string]int{push.ListenerType: e.listenersOfOne()}
		for _, spec := range []string{"rules: [{}]", "action: DENY, rules: [{to: [{operation: {methods: [PUT]}}]}]", "action: CUSTOM, provider: {name: gate}, rules: [{}]"} {
			require.Empty(t, abroad.gets(func() { b.apply(t, guarding("all", spec)) }))
			require.Equal(t, listeners, e.gets(func() {}), spec)
		}
		require.Empty(t, e.gets(func() {
			b.apply(t, guarding("other", "selector: {matchLabels: {app: nobody}}, rules: [{}]"))
			b.apply(t, guarding("attached", "targetRefs: [{kind: Service, name: web}], rules: [{}]"))
		}), "for others")
		require.Empty(t, e.gets(func() { b.apply(t, guarding("all", "action: CUSTOM, provider: {name: gate}, rules: [{}]")) }), "written again")

		// The provider appears: in the MeshConfig, which is for everybody, and then with its
		// service.
		b.apply(t, `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {extensionProviders: [{name: gate, envoyExtAuthzGrpc: {service: gate.shop, port: 80}}]}
`)
		e.answerAll()
		abroad.answerAll()
		gate := `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: gate, namespace: shop}
spec: {hosts: [gate.shop], exportTo: [.], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.9}]}
`
		require.Empty(t, abroad.gets(func() { b.apply(t, gate) }))
		require.Equal(t, listeners[push.ListenerType], e.gets(func() {})[push.ListenerType])
		require.Zero(t, e.gets(func() { b.apply(t, market) })[push.ListenerType])

		policy, _ := kinds.Lookup("security.istio.io", "AuthorizationPolicy")
		require.Equal(t, listeners, e.gets(func() { b.remove(kinds.Key{Kind: policy, Namespace: "shop", Name: "all"}) }))
	}
}

// listenersOfOne is how many listeners are sent when one changes: in the state of the world, all of
// them.
func (e *simulated) listenersOfOne() int {
	if e.proxy.incremental {
		return 1
	}
	return len(e.has[push.ListenerType])
}

// Proxies that see the same, but have different policies, are of two classes, and share what they
// see.
func TestProxiesWithOtherPoliciesShareWhatTheySee(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, market)
	b.apply(t, guarding("bread", "selector: {matchLabels: {app: bread}}, rules: [{}]"))
	bread, fruit := b.open(t, &envoy{labelled("10.9.9.1", "bread"), true}), b.open(t, &envoy{labelled("10.9.9.2", "fruit"), true})
	defer bread.Close()
	defer fruit.Close()
	for _, shared := range []string{push.EndpointType, push.RouteType, push.VirtualHostType} {
		require.Same(t, bread.Snapshot().Sets[shared], fruit.Snapshot().Sets[shared], shared)
	}
	has, lacks := bread.Snapshot().Sets[push.ListenerType], fruit.Snapshot().Sets[push.ListenerType]
	require.NotEqual(t, has.Get("virtualInbound").Version, lacks.Get("virtualInbound").Version)
	require.Same(t, has.Get("virtualOutbound"), lacks.Get("virtualOutbound"))
}

// labelled is a proxy of the namespace shop whose workload has the label app.
func labelled(address, app string) *corev3.Node {
	n := node(address, "shop")
	n.Metadata.Fields["LABELS"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": structpb.NewStringValue(app)}})
	return n
}

func TestAPolicyPartsProxiesThatWereOfOneClass(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, market)
	b.apply(t, guarding("bread", "selector: {matchLabels: {app: nobody}}, rules: [{}]"))
	bread, fruit := b.open(t, &envoy{labelled("10.9.9.1", "bread"), true}), b.open(t, &envoy{labelled("10.9.9.2", "fruit"), true})
	defer bread.Close()
	defer fruit.Close()
	before := fruit.Snapshot()
	require.Same(t, bread.Snapshot(), before)

	b.apply(t, guarding("bread", "selector: {matchLabels: {app: bread}}, rules: [{}]"))
	version := func(s *served.Snapshot) string { return s.Sets[push.ListenerType].Get("virtualInbound").Version }
	require.NotEqual(t, version(before), version(bread.Snapshot()))
	require.Equal(t, version(before), version(fruit.Snapshot()))

	b.apply(t, guarding("bread", "selector: {matchLabels: {app: fruit}}, rules: [{}]"))
	require.Equal(t, version(before), version(bread.Snapshot()))
	require.NotEqual(t, version(before), version(fruit.Snapshot()))
}

func TestAPolicyChangesTheListenersOfAGateway(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, market)
	b.apply(t, `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate, namespace: shop}
spec: {selector: {app: gate}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: ['*']}]}
`)
	open := func(address, tier string) *served.Subscriber {
		n := labelled(address, "gate")
		n.Id = "router~" + address + "~gate.shop~shop.svc.cluster.local"
		n.Metadata.Fields["LABELS"].GetStructValue().Fields["tier"] = structpb.NewStringValue(tier)
		return b.open(t, &envoy{n, true})
	}
	outer, inner := open("10.9.9.1", "outer"), open("10.9.9.2", "inner")
	defer outer.Close()
	defer inner.Close()
	version := func(s *served.Subscriber) string {
		return s.Snapshot().Sets[push.ListenerType].Get("0.0.0.0_8080").Version
	}
	before := version(outer)
	require.Equal(t, before, version(inner))

	b.apply(t, guarding("outer", "selector: {matchLabels: {tier: outer}}, rules: [{}]"))
	first := version(outer)
	require.NotEqual(t, before, first)
	require.Equal(t, before, version(inner))

	b.apply(t, guarding("outer", "selector: {matchLabels: {tier: outer}}, action: DENY, rules: [{}]"))
	require.NotEqual(t, first, version(outer))
	require.Equal(t, before, version(inner))

	policy, _ := kinds.Lookup("security.istio.io", "AuthorizationPolicy")
	b.remove(kinds.Key{Kind: policy, Namespace: "shop", Name: "outer"})
	require.Equal(t, before, version(outer))
}

package push_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

func telling(name, spec string) string {
	return resource("Telemetry", "telemetry.istio.io/v1", "shop", name, spec)
}

// A Telemetry sends listeners to the proxies that it is for, and nothing to others.
func TestATelemetrySendsTheListenersOfThoseWhomItConcerns(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b, e := openMarket(t, "shop", incremental)
		abroad := simulate(t, b.listen(t), &envoy{node("10.9.9.8", "bank"), incremental})
		abroad.connect()
		abroad.answerAll()
		const lines = "accessLogging: [{providers: [{name: envoy}]}]"
		for _, spec := range []string{lines, "accessLogging: [{providers: [{name: envoy}], filter: {expression: response.code == 500}}]", "accessLogging: [{providers: [{name: envoy}], match: {mode: SERVER}}]"} {
			require.Empty(t, abroad.gets(func() { b.apply(t, telling("all", spec)) }))
			require.Equal(t, []string{push.ListenerType}, slices.Collect(maps.Keys(e.gets(func() {}))), spec)
		}
		require.Empty(t, e.gets(func() {
			b.apply(t, telling("other", "selector: {matchLabels: {app: nobody}}, "+lines))
			b.apply(t, telling("attached", "targetRefs: [{kind: Gateway, group: gateway.networking.k8s.io, name: web}], "+lines))
			b.apply(t, telling("later", lines))
		}), "for others, and for nobody")
		require.Zero(t, e.gets(func() { b.apply(t, market) })[push.ListenerType])

		kind, _ := kinds.Lookup("telemetry.istio.io", "Telemetry")
		require.Empty(t, abroad.gets(func() { b.remove(kinds.Key{Kind: kind, Namespace: "shop", Name: "all"}) }))
		require.Equal(t, []string{push.ListenerType}, slices.Collect(maps.Keys(e.gets(func() {}))))
	}
}

// A collector that comes, or goes, is told to those who send to it: first its cluster, then the
// listeners.
func TestTelemetryFollowsItsCollector(t *testing.T) {
	t.Parallel()
	b, e := openMarket(t, "shop", true)
	b.apply(t, resource("MeshConfig", "core/v1alpha1", "istio-system", "mesh", "extensionProviders: [{name: spans, zipkin: {service: col.ops, port: 9411}}]"))
	b.apply(t, resource("Sidecar", "networking.istio.io/v1", "shop", "all", "egress: [{hosts: [./*]}]"))
	b.apply(t, telling("all", "tracing: [{providers: [{name: spans}]}]"))
	e.answerAll()
	const cluster = "outbound|9411||col.ops"
	require.NotContains(t, e.has[push.ClusterType], cluster)
	entry := resource("ServiceEntry", "networking.istio.io/v1", "ops", "col", "hosts: [col.ops], resolution: STATIC, ports: [{number: 9411, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.9}]")
	sent := e.gets(func() { b.apply(t, entry) })
	require.Contains(t, e.has[push.ClusterType], cluster)
	require.NotZero(t, sent[push.ListenerType])
	kind, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	sent = e.gets(func() { b.remove(kinds.Key{Kind: kind, Namespace: "ops", Name: "col"}) })
	require.NotContains(t, e.has[push.ClusterType], cluster)
	require.NotZero(t, sent[push.ListenerType])
}

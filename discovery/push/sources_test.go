package push_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// sources names what a resource of a proxy was made from.
func (b *bench) sources(s *served.Subscriber, typeURL, name string) (out []string) {
	for _, source := range b.Sources(s, typeURL, name) {
		out = append(out, strings.TrimSpace(source.Of.String()+" "+source.Path))
	}
	return out
}

const blamed = service + `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: web.shop, trafficPolicy: {loadBalancer: {simple: RANDOM}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root, namespace: shop}
spec: {hosts: [web.shop], http: [{route: [{destination: {host: web.shop}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: guard, namespace: shop}
spec: {}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: inbound, namespace: shop}
spec:
  configPatches:
  - applyTo: LISTENER
    match: {context: SIDECAR_INBOUND}
    patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 7}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: cluster, namespace: shop}
spec:
  configPatches:
  - applyTo: CLUSTER
    match: {cluster: {service: web.shop}}
    patch: {operation: MERGE, value: {connect_timeout: 1s}}
  - applyTo: CLUSTER
    patch: {operation: ADD, value: {name: added, connect_timeout: 1s}}
  - applyTo: EXTENSION_CONFIG
    patch:
      operation: ADD
      value: {name: limits, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 9}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: route, namespace: shop}
spec:
  configPatches:
  - applyTo: VIRTUAL_HOST
    match: {context: SIDECAR_OUTBOUND, routeConfiguration: {portNumber: 80}}
    patch: {operation: MERGE, value: {require_tls: NONE}}
---
`

func TestTheSourcesOfWhatASidecarIsSent(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, blamed+workload("one", "10.0.0.1"))
	s := b.proxy(t, "10.0.0.1", "shop")
	cluster := "outbound|80||web.shop"
	require.Equal(t, []string{"EnvoyFilter shop/cluster spec.configPatches[0]", "DestinationRule shop/web", "ServiceEntry shop/web"}, b.sources(s, push.ClusterType, cluster))
	require.Equal(t, []string{"DestinationRule shop/web", "ServiceEntry shop/web", "WorkloadEntry shop/one"}, b.sources(s, push.EndpointType, cluster))
	require.Equal(t, []string{"EnvoyFilter shop/cluster spec.configPatches[1]"}, b.sources(s, push.ClusterType, "added"))
	require.Equal(t, []string{"EnvoyFilter shop/cluster spec.configPatches[2]"}, b.sources(s, push.ExtensionType, "limits"))
	require.Equal(t, []string{"EnvoyFilter shop/route spec.configPatches[0]", "VirtualService shop/root", "DestinationRule shop/web", "ServiceEntry shop/web"}, b.sources(s, push.RouteType, "80"))
	require.Equal(t, []string{"EnvoyFilter shop/inbound spec.configPatches[0]", "AuthorizationPolicy shop/guard", "DestinationRule shop/web", "ServiceEntry shop/web"},
		b.sources(s, push.ListenerType, "virtualInbound"))
	require.Empty(t, b.sources(s, push.ListenerType, "virtualOutbound"), "nothing but the defaults")
	require.Empty(t, b.sources(s, push.ClusterType, "BlackHoleCluster"))

	b.apply(t, resource("MeshConfig", "core/v1alpha1", "istio-system", "mesh", "connectTimeout: 3s"))
	require.Equal(t, []string{"MeshConfig istio-system/mesh"}, b.sources(s, push.ListenerType, "virtualOutbound"))
	b.apply(t, telling("logs", "accessLogging: [{providers: [{name: envoy}]}]"))
	require.Equal(t, []string{"Telemetry shop/logs", "MeshConfig istio-system/mesh"}, b.sources(s, push.ListenerType, "virtualOutbound"), "the providers are there")
}

// A proxy that takes virtual hosts by themselves refuses them by themselves.
func TestTheSourcesOfAVirtualHost(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, blamed)
	s := b.passing(t, newest(node("10.0.0.1", "shop")))
	t.Cleanup(s.Close)
	var names []string
	for r := range s.Snapshot().Sets[push.VirtualHostType].All() {
		if strings.Contains(r.Name, "web.shop") {
			names = append(names, r.Name)
			require.Equal(t, []string{"EnvoyFilter shop/route spec.configPatches[0]", "VirtualService shop/root", "DestinationRule shop/web", "ServiceEntry shop/web"}, b.sources(s, push.VirtualHostType, r.Name))
		}
	}
	require.Len(t, names, 1)
}

func TestTheSourcesOfWhatAGatewayIsSent(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service+"---\n"+
		resource("Gateway", "networking.istio.io/v1", "shop", "gate", "selector: {app: gate}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]")+"---\n"+
		resource("VirtualService", "networking.istio.io/v1", "shop", "in", "hosts: [web.example.com], gateways: [gate], http: [{route: [{destination: {host: web.shop}}]}]"))
	authority := certtest.NewAuthority(t)
	b.applySecret(t, "gate", authority.Issue(nil), authority.PEM)
	labels := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": structpb.NewStringValue("gate")}})
	s := b.passing(t, &corev3.Node{Id: "router~10.0.0.8~gate.shop~shop.svc.cluster.local", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"LABELS": labels}}})
	t.Cleanup(s.Close)
	require.Equal(t, []string{"Gateway shop/gate"}, b.sources(s, push.ListenerType, "0.0.0.0_80"))
	require.Equal(t, []string{"VirtualService shop/in", "Gateway shop/gate", "ServiceEntry shop/web"}, b.sources(s, push.RouteType, "http.80"))
	for _, name := range []string{"kubernetes://gate", "kubernetes://gate-cacert", "kubernetes-gateway://shop/gate"} {
		require.Equal(t, []string{"Secret shop/gate"}, b.sources(s, push.SecretType, name))
	}
	require.Empty(t, b.sources(s, push.SecretType, "kubernetes://other"))
}

func TestSourcesHaveABound(t *testing.T) {
	t.Parallel()
	b := newBench()
	var all strings.Builder
	for i := range 60 {
		fmt.Fprintf(&all, "%s---\n%s---\n", strings.NewReplacer("name: web,", fmt.Sprintf("name: web%d,", i), "web.shop", fmt.Sprintf("web%d.shop", i)).Replace(service),
			strings.Replace(route(fmt.Sprint("web", i), "1"), "web.shop", fmt.Sprintf("web%d.shop", i), 1))
	}
	b.apply(t, all.String()+patched("first", "ROUTE_CONFIGURATION", "{most_specific_header_mutations_wins: true}"))
	s := b.proxy(t, "10.0.0.1", "shop")
	sources := b.sources(s, push.RouteType, "80")
	require.Len(t, sources, 50)
	require.Equal(t, "EnvoyFilter shop/first spec.configPatches[0]", sources[0])
	require.Equal(t, sources, b.sources(s, push.RouteType, "80"), "in the same order")
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(sources))), 50)

	gone := b.passing(t, node("10.0.0.2", "shop"))
	gone.Close()
	require.Empty(t, b.sources(gone, push.RouteType, "80"))
}

// Of two patches that may both have changed a resource, none is named.
func TestOneOfSeveralPatchesIsNotNamed(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service+`---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: twice, namespace: shop}
spec:
  configPatches:
  - applyTo: CLUSTER
    patch: {operation: MERGE, value: {connect_timeout: 1s}}
  - applyTo: CLUSTER
    patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 7}}
`)
	s := b.proxy(t, "10.9.0.1", "shop")
	require.Equal(t, "EnvoyFilter shop/twice", b.sources(s, push.ClusterType, "outbound|80||web.shop")[0])
}

package references_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/references"
)

const mesh = `
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: reviews, namespace: shop}, spec: {hosts: [reviews.shop.svc.cluster.local, reviews.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: wild, namespace: shop}, spec: {hosts: ["*.example.com"], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: reviews, namespace: shop}, spec: {host: reviews, subsets: [{name: v1}, {name: v2}]}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: edge, namespace: ingress}, spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews]
  gateways: [mesh, ingress/edge, gone]
  http:
  - match: [{uri: {prefix: /old}}]
    delegate: {name: old}
  - route:
    - {destination: {host: reviews, subset: v2}, weight: 90}
    - {destination: {host: Other.Example.com, subset: v9}, weight: 10}
    mirrors: [{destination: {host: nowhere.org}}]
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: old, namespace: shop}, spec: {http: [{route: [{destination: {host: reviews.example.com}}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: pgmesh}, spec: {controllerName: pgmesh.io/controller}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge, namespace: ingress}, spec: {gatewayClassName: pgmesh, listeners: [{name: http, port: 80, protocol: HTTP}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: reviews, namespace: shop}
spec:
  parentRefs: [{name: edge, namespace: ingress}]
  rules:
  - backendRefs: [{name: reviews, port: 80}, {group: networking.istio.io, kind: Hostname, name: a.example.com, port: 80}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: reviews, namespace: other, port: 80}}}]
---
{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: p, namespace: ingress}, spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}, {group: gateway.networking.k8s.io, kind: GatewayClass, name: pgmesh}]}}
`

func index(t *testing.T) (*references.Index, func(group, kind, namespace, name string) kinds.Key) {
	t.Helper()
	documents, err := kinds.Parse("mesh.yaml", []byte(mesh))
	require.NoError(t, err)
	var resources []*kinds.Resource
	for _, d := range documents {
		resources = append(resources, d.Resource)
	}
	ix, err := references.Of(resources)
	require.NoError(t, err)
	return ix, func(group, kind, namespace, name string) kinds.Key {
		k, known := kinds.Lookup(group, kind)
		require.True(t, known)
		return kinds.Key{Kind: k, Namespace: namespace, Name: name}
	}
}

func describe(list []references.Reference) []string {
	var lines []string
	for _, r := range list {
		lines = append(lines, fmt.Sprint(r.From, " ", r.Path, " ", r.Name, " ", r.To))
	}
	return lines
}

const (
	istio   = "networking.istio.io"
	gateway = "gateway.networking.k8s.io"
)

func TestReferencesFrom(t *testing.T) {
	t.Parallel()
	ix, key := index(t)
	require.Equal(t, []string{
		"VirtualService shop/reviews spec.hosts[0] reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
		"VirtualService shop/reviews spec.gateways[1] ingress/edge [Gateway ingress/edge]",
		"VirtualService shop/reviews spec.gateways[2] shop/gone []",
		"VirtualService shop/reviews spec.http[0].delegate shop/old [VirtualService shop/old]",
		"VirtualService shop/reviews spec.http[1].route[0].destination.host reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
		"VirtualService shop/reviews spec.http[1].route[0].destination.subset reviews.shop.svc.cluster.local/v2 [DestinationRule shop/reviews]",
		"VirtualService shop/reviews spec.http[1].route[1].destination.host other.example.com []",
		"VirtualService shop/reviews spec.http[1].route[1].destination.subset other.example.com/v9 []",
		"VirtualService shop/reviews spec.http[1].mirrors[0].destination.host nowhere.org []",
	}, describe(ix.From(key(istio, "VirtualService", "shop", "reviews"))))
	require.Equal(t, []string{
		"HTTPRoute shop/reviews spec.parentRefs[0] ingress/edge [Gateway ingress/edge]",
		"HTTPRoute shop/reviews spec.rules[0].backendRefs[0] reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
		"HTTPRoute shop/reviews spec.rules[0].backendRefs[1] a.example.com []",
		"HTTPRoute shop/reviews spec.rules[0].filters[0].requestMirror.backendRef reviews.other.svc.cluster.local []",
	}, describe(ix.From(key(gateway, "HTTPRoute", "shop", "reviews"))))
	require.Empty(t, ix.From(key(istio, "ServiceEntry", "shop", "reviews")))
}

func TestClassesThatNeedNoGatewayClass(t *testing.T) {
	t.Parallel()
	for class, builtIn := range map[string]bool{"pgmesh": true, "istio": true, "envoy": false} {
		documents, err := kinds.Parse("edge.yaml", fmt.Appendf(nil,
			"{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge, namespace: shop}, spec: {gatewayClassName: %s, listeners: [{name: http, port: 80, protocol: HTTP}]}}", class))
		require.NoError(t, err)
		ix, err := references.Of([]*kinds.Resource{documents[0].Resource})
		require.NoError(t, err)
		names := ix.From(documents[0].Resource.Key())
		require.Len(t, names, 1, class)
		require.Equal(t, builtIn, names[0].BuiltIn, class)
	}
}

// Names must resolve as discovery resolves them.
func TestNamesResolveAsInDiscovery(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("mesh.yaml", []byte(mesh+`
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all, namespace: shop}
spec:
  hosts: [a.example.com]
  gateways: [edge.ingress.svc.cluster.local]
  http: [{match: [{gateways: [edge.ingress]}], route: [{destination: {host: Reviews.Example.com}}]}]
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: all, namespace: shop}, spec: {outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: reviews.example.com, port: {number: 80}}}}}
---
{apiVersion: networking.istio.io/v1alpha3, kind: EnvoyFilter, metadata: {name: all, namespace: ingress}, spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}]}}
`))
	require.NoError(t, err)
	var resources []*kinds.Resource
	for _, d := range documents {
		resources = append(resources, d.Resource)
	}
	ix, err := references.Of(resources)
	require.NoError(t, err)
	from := func(kind, namespace string) []string {
		k, known := kinds.Lookup(istio, kind)
		require.True(t, known)
		return describe(ix.From(kinds.Key{Kind: k, Namespace: namespace, Name: "all"}))
	}
	require.Equal(t, []string{
		"VirtualService shop/all spec.hosts[0] a.example.com [ServiceEntry shop/wild]",
		"VirtualService shop/all spec.gateways[0] ingress/edge [Gateway ingress/edge]",
		"VirtualService shop/all spec.http[0].match[0].gateways[0] ingress/edge [Gateway ingress/edge]",
		"VirtualService shop/all spec.http[0].route[0].destination.host reviews.example.com [ServiceEntry shop/reviews]",
	}, from("VirtualService", "shop"))
	require.Equal(t, []string{"Sidecar shop/all spec.outboundTrafficPolicy.egressProxy.host reviews.example.com [ServiceEntry shop/reviews]"}, from("Sidecar", "shop"))
	require.Equal(t, []string{"EnvoyFilter ingress/all spec.targetRefs[0] ingress/edge [Gateway ingress/edge]"}, from("EnvoyFilter", "ingress"))
}

func TestReferencesTo(t *testing.T) {
	t.Parallel()
	ix, key := index(t)
	require.Equal(t, []string{
		"DestinationRule shop/reviews spec.host reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
		"VirtualService shop/reviews spec.hosts[0] reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
		"VirtualService shop/reviews spec.http[1].route[0].destination.host reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
		"VirtualService shop/old spec.http[0].route[0].destination.host reviews.example.com [ServiceEntry shop/reviews]",
		"HTTPRoute shop/reviews spec.rules[0].backendRefs[0] reviews.shop.svc.cluster.local [ServiceEntry shop/reviews]",
	}, describe(ix.To(key(istio, "ServiceEntry", "shop", "reviews"))), "the exact host is meant before the wildcard")
	require.Len(t, ix.To(key(istio, "Gateway", "ingress", "edge")), 1, "the two kinds called Gateway are apart")
	require.Len(t, ix.To(key(gateway, "Gateway", "ingress", "edge")), 2)
	require.Len(t, ix.To(key(gateway, "GatewayClass", "", "pgmesh")), 2)
	require.Len(t, ix.To(key(istio, "DestinationRule", "shop", "reviews")), 1)
	require.Len(t, ix.To(key(istio, "VirtualService", "shop", "old")), 1)
	require.Empty(t, ix.To(key(istio, "VirtualService", "shop", "reviews")))
}

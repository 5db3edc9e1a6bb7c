package proxy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A real Envoy and a simulated one go through the same changes, and must send the same requests.
func TestProxyMatchesEnvoy(t *testing.T) {
	t.Parallel()
	for _, form := range []bootstrap.XDS{bootstrap.Delta, bootstrap.SotW} {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh := source.NewMemory()
			discovery := servetest.Start(t, serve.Sources{Embedded: []source.Source{mesh}}, ads.Limits{}).XDS.String()
			envoy, simulated := newRelay(t, discovery), newRelay(t, discovery)
			mesh.Replace(parse(t, service("one", "one")+service("two", "two"))...)
			envoytest.Start(t, boot(t, envoy.address, form))
			startProxy(t, simulated.address, boot(t, simulated.address, form).GetNode(), form)

			both := func(what string, sent condition) {
				t.Helper()
				envoy.until(what, sent)
				simulated.until(what, sent)
			}
			both("a route to two", has("RouteConfiguration", "VirtualHost", "mark-two"))
			mesh.Replace(parse(t, service("one", "one")+service("two", "two")+service("three", "three"))...)
			both("a route to three", has("RouteConfiguration", "VirtualHost", "mark-three"))
			mesh.Replace(parse(t, service("one", "one")+service("two", "changed")+service("three", "three"))...)
			both("a changed route", has("RouteConfiguration", "VirtualHost", "mark-changed"))
			mesh.Replace(parse(t, service("one", "one")+service("two", "changed"))...)
			both("the end of three's cluster and endpoints", gone("outbound|8080||three.shop.mesh.test", form))

			for _, kind := range []string{"Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration", "VirtualHost"} {
				require.Equal(t, envoy.of(kind), simulated.of(kind), kind)
			}
			sameNode(t, envoy.node, simulated.node)
			require.Equal(t, firsts(envoy.all()), firsts(simulated.all()), "the order in which types are asked for")
		})
	}
}

func startProxy(t *testing.T, address string, node *corev3.Node, form bootstrap.XDS) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served, ended := make(chan time.Time, 1), make(chan error, 1)
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Address: address, Node: node, Incremental: form == bootstrap.Delta,
			Expect: proxy.Expected{Endpoints: 2, VirtualHosts: 2},
			Heard:  func(proxy.Response) {}, Served: func(at time.Time) { served <- at },
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case <-served:
	case err := <-ended:
		t.Fatal(err)
	}
}

func boot(t *testing.T, address string, form bootstrap.XDS) *bootstrapv3.Bootstrap {
	t.Helper()
	b, err := realenvoy.Bootstrap(bootstrap.Options{
		Socket: "/nowhere", XDS: form, Role: bootstrap.Sidecar, IP: "10.0.0.1", ID: "machine.shop", Namespace: "shop",
		Domain: "shop.mesh.test", Interception: bootstrap.Redirect, Admin: "127.0.0.1:0",
	}, address)
	require.NoError(t, err)
	return b
}

// service returns a service and its route, which has a mark, as has its cluster.
func service(name, mark string) string {
	return fmt.Sprintf(`
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.shop.mesh.test]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.1}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.shop.mesh.test]
  http:
  - route: [{destination: {host: %[1]s.shop.mesh.test}}]
    headers: {response: {set: {x-mark: mark-%[2]s}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: shop}
spec:
  host: %[1]s.shop.mesh.test
  trafficPolicy: {connectionPool: {tcp: {connectTimeout: %[3]ds}}}
`, name, mark, len(mark))
}

func parse(t *testing.T, text string) (resources []*kinds.Resource) {
	t.Helper()
	documents, err := kinds.Parse("mesh.yaml", []byte(text))
	require.NoError(t, err)
	for _, d := range documents {
		resources = append(resources, d.Resource)
	}
	return resources
}

// has reports whether there was a response of one of two types that contains a text.
func has(one, other, text string) condition {
	return func(_, answered []message) bool {
		return slices.ContainsFunc(answered, func(m message) bool {
			return (m.kind == one || m.kind == other) && strings.Contains(m.text, text)
		})
	}
}

// gone reports whether a cluster was removed and the client has dropped its endpoints. Incremental
// responses name removed clusters; the others just lack them. Only incremental servers answer a
// client that drops endpoints.
func gone(name string, form bootstrap.XDS) condition {
	if form == bootstrap.Delta {
		return func(_, answered []message) bool {
			return strings.Contains(last(answered, "Cluster"), "-"+name) && strings.Contains(last(answered, "ClusterLoadAssignment"), "-"+name)
		}
	}
	return func(asked, answered []message) bool {
		return !strings.Contains(last(answered, "Cluster"), name) && !strings.Contains(last(asked, "ClusterLoadAssignment"), name)
	}
}

// last returns the text of the last message of a type.
func last(messages []message, kind string) (text string) {
	for _, m := range messages {
		if m.kind == kind {
			text = m.text
		}
	}
	return text
}

// firsts returns the types in the order of their first requests.
func firsts(asked []message) (kinds []string) {
	for _, m := range asked {
		if !slices.Contains(kinds, m.kind) {
			kinds = append(kinds, m.kind)
		}
	}
	return kinds
}

// sameNode compares the nodes of two proxies. Their lists of extensions need only be equally large,
// since servers must parse them but should not keep them.
func sameNode(t *testing.T, envoy, simulated *corev3.Node) {
	t.Helper()
	require.Len(t, simulated.GetExtensions(), len(envoy.GetExtensions()))
	require.InDelta(t, proto.Size(envoy), proto.Size(simulated), 5000)
	envoy.Extensions, simulated.Extensions = nil, nil
	require.Empty(t, cmp.Diff(envoy, simulated, protocmp.Transform()))
}

package resources_test

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	m.Apply(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: v2, namespace: default, annotations: {team: "réviews\nand more"}}
spec: {hosts: [v2.default.svc.cluster.local], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`)
	out := clitest.WithoutClocks(m.OK("describe", "vs/reviews"))
	require.Regexp(t, `^Name:          reviews
Namespace:     default
Kind:          VirtualService \(networking.istio.io/v1\)
Labels:        app=reviews
Annotations:   -
Created:       <time>, \d+s ago
Spec:
  hosts:
  - reviews.example.com
  http:
  - route:
    - destination:
        host: v2
      weight: 100
Refers to:
  spec.hosts\[0\] +reviews.example.com +\(not found\)
  spec.http\[0\].route\[0\].destination.host   v2.default.svc.cluster.local   serviceentry default/v2
History:
  revision 2   <time>, \d+s ago   changed   \S+ \(mcp-client.*\)   canary: v2
  revision 1   <time>, \d+s ago   created   \S+ \(mcp-client.*\)   the first
$`, out)
	out = m.OK("describe", "se", "v2")
	require.Contains(t, out, "Annotations:   team=réviews and more\n")
	require.Contains(t, out, "Referred to by:\n  virtualservice default/reviews   spec.http[0].route[0].destination.host\n")

	out = m.OK("describe", "vs/ratings")
	require.Contains(t, out, `Problems:
  error  unknown-host  spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "v1.default.svc.cluster.local"`)
	require.Equal(t, 2, strings.Count(m.OK("describe", "vs", "-A"), "Name: "))
	require.Contains(t, m.OK("describe", "vs/ratings", "--color", "always"), "\x1b[31merror\x1b[0m")
}

func TestDescribeMissingResource(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	r := m.Run("describe", "vs", "reviews", "gone")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Out, "Name:          reviews\n")
	require.Equal(t, "error: VirtualService default/gone: not found\n", r.Err)
	require.Equal(t, clitest.Result{Err: "nothing found in namespace default\n"}, m.Run("describe", "wasmplugins"))
	for _, args := range [][]string{{"describe"}, {"describe", "nothing"}, {"describe", "vs", "-o", "json"}} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}
	require.Contains(t, m.OK("describe", "gc/pgmesh"), "Referred to by:\n  gateway.gateway.networking.k8s.io default/edge   spec.gatewayClassName\n")
}

func TestDescribeOnForeignServer(t *testing.T) {
	t.Parallel()
	address := clitest.ServeGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, clitest.Stock{}) })
	r := clitest.Run(t.Context(), "", nil, "describe", "vs", "--server", address, "--insecure")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, `Name:          reviews
Namespace:     default
Kind:          VirtualService (networking.istio.io/v1)
Labels:        -
Annotations:   -
Spec:
  hosts:
  - a
Refers to:
  spec.hosts[0]   a.default.svc.cluster.local   (not found)
`, r.Out)
}

package push_test

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
)

// BenchmarkRouteOfAGateway has a Gateway of the Gateway API with routes, each for a host of its own
// and with a backend that is not there, of which one changes, or one more comes. What it costs is not
// to grow with the routes.
func BenchmarkRouteOfAGateway(b *testing.B) {
	for _, routes := range []int{100, 1000, 5000} {
		for name, change := range map[string]func(i int) string{
			"route":     func(i int) string { return httpRoute(routes/2, i) },
			"new route": func(i int) string { return httpRoute(routes+i, 0) },
		} {
			b.Run(fmt.Sprintf("%s of %d", name, routes), func(b *testing.B) {
				engine := newBench()
				config := []string{apiGateway, serviceOf(0, 1)}
				for i := range routes {
					config = append(config, httpRoute(i, 0))
				}
				engine.apply(b, strings.Join(config, "---"))
				s, err := engine.Open(b.Context(), apiRouter(), true)
				require.NoError(b, err)
				b.Cleanup(s.Close)
				for i := 1; b.Loop(); i++ {
					engine.apply(b, change(i))
				}
			})
		}
	}
}

// apiGateway is a Gateway of the Gateway API, and apiRouter a machine that serves it.
const apiGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gate, namespace: edge}
spec: {gatewayClassName: pgmesh, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

func apiRouter() *corev3.Node {
	n := newest(node("10.9.0.1", "edge"))
	n.Id = strings.Replace(n.GetId(), "sidecar", "router", 1)
	n.Metadata.Fields["LABELS"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"gateway.networking.k8s.io/gateway-name": structpb.NewStringValue("gate"),
	}})
	return n
}

// httpRoute is a route of the Gateway for a host of its own, with a number in it. It has a second rule
// for a backend that is not there.
func httpRoute(i, header int) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r%[1]d, namespace: edge}
spec:
  parentRefs: [{name: gate}]
  hostnames: [r%[1]d.example.com]
  rules:
  - filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-rule, value: "%[2]d"}]}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: s0.team-0.svc.cluster.local, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /other}}]
    backendRefs: [{name: missing, port: 80}]
`, i, header)
}

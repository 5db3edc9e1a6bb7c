package push_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// BenchmarkChangeOfOneService has a proxy in each of 20 namespaces with 20 services, and a service
// of one of them change. With a Sidecar that shows each proxy its own namespace, one proxy sees
// that; without, all do.
func BenchmarkChangeOfOneService(b *testing.B) {
	for name, sidecar := range map[string]string{
		"whole mesh": "",
		"sidecars": "---\napiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: default, namespace: istio-system}\n" +
			"spec: {egress: [{hosts: [./*]}]}\n",
	} {
		b.Run(name, func(b *testing.B) {
			engine := newBench()
			var config strings.Builder
			for i := range 400 {
				config.WriteString("---\n" + serviceOf(i, 1))
			}
			engine.apply(b, config.String()+sidecar)
			for i := range 20 {
				s, err := engine.Open(b.Context(), node(fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprintf("team-%d", i)), true)
				require.NoError(b, err)
				b.Cleanup(s.Close)
			}
			for i := 0; b.Loop(); i++ {
				engine.apply(b, serviceOf(7, 2+i%200))
			}
		})
	}
}

func serviceOf(i, address int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: team-%[2]d}
spec:
  hosts: [s%[1]d.team-%[2]d.svc.cluster.local]
  resolution: STATIC
  location: MESH_INTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.%[3]d}]
`, i, i%20, address)
}

// BenchmarkChangeAmong1000 has 1,000 services of 5 endpoints with a route each in 20 namespaces,
// and 500 proxies, which are the endpoints of the first hundred.
func BenchmarkChangeAmong1000(b *testing.B) {
	const services, proxies = 1000, 500
	for name, change := range map[string]func(i int) string{
		"endpoint":     func(i int) string { return meshService(500, 5, i) },
		"own endpoint": func(i int) string { return meshService(50, 5, i) },
		"route":        func(i int) string { return meshRoute(500, i) },
		"new service":  func(i int) string { return meshService(services+i, 5, 0) },
		"nothing":      func(int) string { return meshRoute(500, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			engine := newBench()
			var config strings.Builder
			for i := range services {
				config.WriteString("---\n" + meshService(i, 5, 0) + "---\n" + meshRoute(i, 0))
			}
			engine.apply(b, config.String())
			for i := range proxies {
				n := newest(node(fmt.Sprintf("10.%d.%d.%d", i/5/256, i/5%256, i%5+1), fmt.Sprint("team-", i/5%20)))
				s, err := engine.Open(b.Context(), n, true)
				require.NoError(b, err)
				b.Cleanup(s.Close)
			}
			for i := 1; b.Loop(); i++ {
				engine.apply(b, change(i))
			}
		})
	}
}

func meshService(i, endpoints, more int) string {
	var all strings.Builder
	for e := range endpoints {
		fmt.Fprintf(&all, "{address: 10.%d.%d.%d, weight: %d},", i/256, i%256, e+1, 1+more)
	}
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%[1]d, namespace: team-%[3]d}
spec:
  hosts: [s%[1]d.team-%[3]d.svc.cluster.local]
  resolution: STATIC
  location: MESH_INTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [%[2]s]
`, i, all.String(), i%20)
}

func meshRoute(i, header int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s%[1]d, namespace: team-%[3]d}
spec:
  hosts: [s%[1]d.team-%[3]d.svc.cluster.local]
  http:
  - headers: {response: {set: {x-rule: "%[2]d"}}}
    route: [{destination: {host: s%[1]d.team-%[3]d.svc.cluster.local}}]
`, i, header, i%20)
}

// BenchmarkChangeOfAGateway has a gateway with 3,000 rules, each for a host of its own, of which
// one changes, or one more comes.
func BenchmarkChangeOfAGateway(b *testing.B) {
	const rules = 3000
	for name, change := range map[string]func(i int) string{
		"route":     func(i int) string { return gatewayRoute(rules/2, i) },
		"new route": func(i int) string { return gatewayRoute(rules+i, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			engine := newBench()
			var config strings.Builder
			config.WriteString(meshService(0, 5, 0) + `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate, namespace: edge}
spec: {selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}
`)
			for i := range rules {
				config.WriteString("---\n" + gatewayRoute(i, 0))
			}
			engine.apply(b, config.String())
			n := newest(node("10.9.0.1", "edge"))
			n.Id = strings.Replace(n.GetId(), "sidecar", "router", 1)
			n.Metadata.Fields["LABELS"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": structpb.NewStringValue("edge")}})
			s, err := engine.Open(b.Context(), n, true)
			require.NoError(b, err)
			b.Cleanup(s.Close)
			require.Equal(b, rules+1, s.Snapshot().Sets[push.ScopedRouteType].Len())
			for i := 1; b.Loop(); i++ {
				engine.apply(b, change(i))
			}
		})
	}
}

func gatewayRoute(i, header int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: r%[1]d, namespace: edge}
spec:
  hosts: [r%[1]d.example.com]
  gateways: [gate]
  http:
  - headers: {response: {set: {x-rule: "%[2]d"}}}
    route: [{destination: {host: s0.team-0.svc.cluster.local}}]
`, i, header)
}

package push_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkChangeOfOneService has a proxy in each of 20 namespaces with 20 services, and a service of one of them change. With a
// Sidecar that shows each proxy its own namespace, one proxy sees that; without, all do.
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
				s, err := engine.Open(b.Context(), node(fmt.Sprintf("10.0.0.%d", i+1), fmt.Sprintf("team-%d", i)))
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

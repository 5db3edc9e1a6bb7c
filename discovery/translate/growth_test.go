package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// A patch of a megabyte that matches each of 200 clusters is applied to as many as there is room
// for. Where it was not applied, that is told.
func TestPatchesMakeAProxysConfigurationOnlySoMuchLarger(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	fmt.Fprintf(&text, `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: large, namespace: shop}
spec:
  configPatches:
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND}
    patch: {operation: MERGE, value: {alt_stat_name: %s}}
`, strings.Repeat("x", 1<<20))
	for i := range 200 {
		fmt.Fprintf(&text, `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%d, namespace: shop}
spec: {hosts: [s%[1]d.shop.mesh], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`, i)
	}
	in := input{}
	in.Proxy.Node = "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local"
	out := in.translate(t, parse(t, "large.yaml", text.String()))

	size := 0
	for _, c := range out.clusters {
		size += proto.Size(c)
	}
	require.Greater(t, size, 60<<20)
	require.Less(t, size, 66<<20)
	require.Greater(t, len(out.unpatched), 100)
	require.Contains(t, out.unpatched[0], "EnvoyFilters may make what a proxy is sent larger by 64 MiB")
}

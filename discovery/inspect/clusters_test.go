package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

func TestClustersAreListedWithTheirEndpoints(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web + `
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far}
spec: {hosts: [far.example.com], resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`)
	b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType).accept(1)
	_, text := b.get("/debug/clusters?proxy=vm-1&name=web")
	require.JSONEq(t, `[{
		"name": "outbound|80||web.shop", "type": "EDS", "version": "`+shown[[]struct{ Version string }](b, "/debug/clusters?proxy=vm-1&name=web")[0].Version+`",
		"endpoints": [
			{"address": "10.1.0.1:80", "health": "healthy", "locality": "eu/a", "priority": 0, "weight": 3},
			{"address": "10.1.0.2:80", "health": "healthy", "locality": "eu/b", "priority": 0, "weight": 1}
		]
	}]`, text)
	_, text = b.get("/debug/clusters?proxy=vm-1&name=far")
	require.Contains(t, text, `"type": "STRICT_DNS"`)
	require.Contains(t, text, `"address": "far.example.com:443"`)
}

package push_test

import "testing"

// A Sidecar may open the port of an HTTP proxy, whose routes are those of all ports together. So a
// changed rule changes them, too.
func TestTheRoutesOfAnHTTPProxyFollowARule(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b := newBench()
		b.apply(t, service+"---"+workload("one", "10.0.0.9")+`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec:
  egress:
  - {port: {number: 3128, protocol: HTTP_PROXY, name: proxy}, bind: 127.0.0.1, captureMode: NONE, hosts: ['*/*']}
---`+route("web", "1"))
		proxy := &envoy{node("10.9.9.9", "shop"), incremental}
		s := b.open(t, proxy)
		defer s.Close()
		for _, header := range []string{"2", "3"} {
			b.apply(t, route("web", header))
			if d := b.differs(t, proxy, s); d != "" {
				t.Error(d)
			}
		}
	}
}

package translate_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/kinds"
)

// hostile draws what somebody could write to make the Envoys of others refuse something: what is
// rare, what can be written in two ways, what is large, and what is the proxy's own.
type hostile struct{ *rand.Rand }

func (h hostile) pick(from ...string) string { return from[h.IntN(len(from))] }

func (h hostile) host() string {
	return h.pick("web.shop", "WEB.shop", "*.shop", "*", "web.evil", "Web.Evil", "localhost", "10.0.0.1", "x."+strings.Repeat("a", 60)+".evil", "*.evil.example.com", "a.evil.example.com", "shop.example.com")
}

func (h hostile) port() string {
	return h.pick("80", "443", "15001", "15006", "15021", "15090", "8080", "1", "65535", "9000")
}

func (h hostile) entry(i int) string {
	protocol := h.pick("TCP", "HTTP", "HTTPS", "TLS", "HTTP2", "GRPC", "MONGO", "MYSQL", "UDP", "REDIS", "HTTP_PROXY")
	endpoints := h.pick("", fmt.Sprintf("endpoints: [{address: %s, weight: %s}, {address: 10.1.1.1, weight: 4294967295, locality: %s}]",
		h.pick("127.0.0.1", "10.1.2.3", "'::1'", "0.0.0.0", "'fd00::9'", "localhost", "'unix:///x'"), h.pick("0", "1", "4294967295"), h.pick("a", "a/b/c", "a//c")))
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: s%d, namespace: %s}
spec:
  hosts: ['%s']
  addresses: [%s]
  location: %s
  resolution: %s
  ports: [{number: %s, name: a, protocol: %s}, {number: %s, name: b, protocol: %s}]
  %s
`, i, h.pick("evil", "evil", "evil2", "shop"), h.host(),
		h.pick("", "", "'::'", "0.0.0.0", "10.0.0.0/8", "'fd00::2'", "'FD00:0::2'", "10.0.0.1", "240.240.0.1", "'0.0.0.0/0', '::/0'", "10.0.0.9, 10.0.0.9/32"),
		h.pick("MESH_INTERNAL", "MESH_EXTERNAL"), h.pick("NONE", "STATIC", "DNS", "DNS_ROUND_ROBIN", "DYNAMIC_DNS"), h.port(), protocol, h.port(), h.pick("TCP", "HTTP", "TLS", protocol), endpoints)
}

func (h hostile) route(i int) string {
	match := h.pick("{}", "uri: {regex: '(((a{30}){30}){30})'}", "uri: {exact: ''}", "uri: {prefix: ''}", "headers: {':path': {exact: x}}", "headers: {X-A: {regex: '*'}, x-a: {exact: b}}", "port: 80",
		"sourceLabels: {app: client}", "queryParams: {'': {exact: a}}", "authority: {prefix: ''}", "uri: {exact: /"+strings.Repeat("x", 5000)+"}")
	if match == "{}" {
		match = "uri: {prefix: /}"
	}
	action := h.pick("route: [{destination: {host: web.shop}}]", "route: [{destination: {host: web.shop, port: {number: 80}}, weight: 100}, {destination: {host: nowhere}, weight: 100}]",
		"redirect: {uri: '', redirectCode: 308}", "directResponse: {status: 599, body: {string: "+strings.Repeat("b", 5000)+"}}", "redirect: {authority: '*', derivePort: FROM_REQUEST_PORT}")
	more := h.pick("", "timeout: 999999h", "retries: {attempts: 2147483647, perTryTimeout: 1ms, retryOn: '5xx,nonsense,999'}", "fault: {abort: {httpStatus: 599, percentage: {value: 0.0000001}}}",
		"headers: {request: {set: {':authority': x, Host: y, ':path': /}}}", "headers: {response: {remove: [':status', 'a b', '']}}", "rewrite: {uriRegexRewrite: {match: '(a', rewrite: '\\9'}}", "rewrite: {authority: \"a\\nb\"}",
		"mirrorPercentage: {value: 100}, mirror: {host: web.evil}", "corsPolicy: {allowOrigins: [{regex: '['}], maxAge: 999999h}")
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v%d, namespace: %s}
spec: {hosts: ['%s', '%s'], gateways: [%s], http: [{match: [{%s}], %s%s}], tls: [{match: [{port: 443, sniHosts: ['%s', '%s']}], route: [{destination: {host: web.shop}}]}],
  tcp: [{match: [{destinationSubnets: ['%s', 10.0.0.0/8]}], route: [{destination: {host: web.shop}, weight: %s}]}]}
`, i, h.pick("evil", "evil2"), h.host(), h.host(), h.pick("mesh", "shop/edge", "shop/edge, mesh"), match, action, h.pick("", ", ")+more, h.host(), h.host(), h.pick("0.0.0.0/0", "10.1.2.3/8", "'::/0'", "10.0.0.0/8"), h.pick("0", "1", "2147483647"))
}

func (h hostile) gateway(i int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g%d, namespace: evil}
spec: {selector: {app: edge}, servers: [{port: {number: %s, name: a, protocol: %s}, hosts: ['%s'], bind: '%s'}]}
`, i, h.port(), h.pick("HTTP", "TCP", "HTTP2"), h.host(), h.pick("", "0.0.0.0", "::", "FD00::1", "fd00::1", "127.0.0.1"))
}

func (h hostile) rule(i int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: d%d, namespace: evil}
spec: {host: '%s', trafficPolicy: {%s}}
`, i, h.host(), h.pick("loadBalancer: {simple: PASSTHROUGH}", "loadBalancer: {consistentHash: {httpHeaderName: 'a b', minimumRingSize: 99999999}}", "connectionPool: {tcp: {maxConnections: 2147483647, connectTimeout: 999999h}}",
		"outlierDetection: {consecutive5xxErrors: 4294967295, interval: 1ms, baseEjectionTime: 999999h, maxEjectionPercent: 100}", "tls: {mode: SIMPLE, sni: '*'}", "loadBalancer: {simple: LEAST_REQUEST, warmup: {duration: 999999h}}"))
}

// TestHostileResources has Envoy check what a proxy is given of a mesh in which others write what
// they like. Resources that are refused when they are written are left out.
func TestHostileResources(t *testing.T) {
	t.Parallel()
	for seed := range 24 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			h := hostile{rand.New(rand.NewPCG(uint64(seed), 18))}
			var resources []*kinds.Resource
			for i := range 40 {
				for _, text := range []string{h.entry(i), h.route(i), h.gateway(i), h.rule(i)} {
					if documents, err := kinds.Parse("hostile.yaml", []byte(text)); err == nil {
						resources = append(resources, documents[0].Resource)
					}
				}
			}
			in := input{}
			in.Proxy.Node = h.pick("sidecar", "router") + "~10.0.0.1~client.shop~shop.svc.cluster.local"
			in.Proxy.Metadata = map[string]any{
				"NAMESPACE": "shop", "INSTANCE_IPS": h.pick("10.0.0.1", "10.0.0.1,fd00::1", "fd00::1"), "LABELS": map[string]any{"app": "edge"},
				"INTERCEPTION_MODE": h.pick("REDIRECT", "REDIRECT", "NONE"), "ENVOY_STATUS_PORT": "15021", "DNS_CAPTURE": h.pick("true", "false"),
			}
			out := in.translate(t, resources)
			out.requireValid(t)
			envoytest.Validate(t, bootstrap(t, in, out))
			if len(resources) < 60 {
				t.Fatalf("only %d resources are taken: the test tries little", len(resources))
			}
		})
	}
}

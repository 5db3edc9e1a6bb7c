package mesh_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"
)

// object reads a spec of the Gateway API.
func object(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	out := &structpb.Struct{}
	require.NoError(t, out.UnmarshalJSON([]byte(text)), text)
	return out
}

func (d draw) gatewayClass(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"controllerName": %q}`, pick(d, "pgmesh.io/gateway-controller", "example.com/others")))
}

func (d draw) apiGateway(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"gatewayClassName": %q, "tls": %s, "addresses": %s, "allowedListeners": {"namespaces": {"from": %q}}, "listeners": [%s%s, %s]}`,
		pick(d, "pgmesh", "pgmesh", "istio", "r0", "r1"),
		pick(d, `{}`, fmt.Sprintf(`{"frontend": {"default": {"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": %q}]}}}}`, d.name()),
			fmt.Sprintf(`{"frontend": {"default": {"validation": {"caCertificateRefs": [{"group": "", "kind": "Secret", "name": %q}, {"group": "", "kind": "Secret", "name": %q}]}}}}`, d.name(), d.name()),
			fmt.Sprintf(`{"backend": {"clientCertificateRef": {"kind": %q, "name": %q, "namespace": %q}}}`, pick(d, "Secret", "Secret", "Thing"), d.name(), d.in())),
		pick(d, `[]`, `[]`, `[{"type": "Hostname", "value": "x.a.com"}]`, `[{"value": "10.0.0.1"}]`, `[{"type": "example.com/pool", "value": "a"}]`), pick(d, "All", "Same", "None"),
		d.listener("one"), pick(d, "", ", "+d.listener("two")),
		pick(d, `{"name": "tls", "port": 444, "protocol": "TLS", "tls": {"mode": "Passthrough"}, "allowedRoutes": {"namespaces": {"from": "All"}}}`,
			`{"name": "tcp", "port": 445, "protocol": "TCP"}`, fmt.Sprintf(`{"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": %q, "namespace": %q}]}}`, d.name(), d.in()))))
}

func (d draw) listener(name string) string {
	return fmt.Sprintf(`{"name": %q, "port": %d, "protocol": "HTTP", "hostname": %q, "allowedRoutes": {"namespaces": %s}}`,
		name, pick(d, 80, 80, 81), pick(d, "", "*.a.com", "x.a.com", "*.com"),
		pick(d, `{"from": "All"}`, `{"from": "Same"}`, `{"from": "Selector", "selector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["one"]}]}}`))
}

func (d draw) listenerSet(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"parentRef": {"name": %q, "namespace": %q}, "listeners": [%s]}`, d.name(), d.in(), d.listener("more")))
}

func (d draw) name() string { return fmt.Sprint("r", d.IntN(3)) }

func (d draw) in() string { return pick(d, namespacesDrawn...) }

// route is that of any kind: what one of them does not have is not looked at.
func (d draw) route(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"parentRefs": [%s%s], "hostnames": [%q], "rules": [{"matches": [{"path": {"value": "/%d"}}]%s%s, "backendRefs": [%s, %s]}]}`,
		d.parent(), pick(d, "", ", "+d.parent()), pick(d, "x.a.com", "*.a.com", "b.com"), d.IntN(3), d.session(), d.externalAuth(), d.backend(), d.backend()))
}

// externalAuth has services decide about the requests of a rule, if it says something.
func (d draw) externalAuth() string {
	one := func(protocol string) string {
		return fmt.Sprintf(`{"type": "ExternalAuth", "externalAuth": {"protocol": %q, "backendRef": %s}}`, protocol, d.backend())
	}
	return pick(d, "", "", "", `, "filters": [`+one("GRPC")+`]`, `, "filters": [`+one("HTTP")+`, `+one("GRPC")+`]`)
}

// session is what a rule says of sessions, if it says something.
func (d draw) session() string {
	return pick(d, "", "", "", `, "sessionPersistence": {}`, `, "sessionPersistence": {"sessionName": "a"}`, `, "sessionPersistence": {"sessionName": "a", "type": "Header"}`,
		`, "sessionPersistence": {"sessionName": "a", "absoluteTimeout": "1m", "cookieConfig": {"lifetimeType": "Permanent"}}`, `, "sessionPersistence": {"sessionName": "a b"}`)
}

func (d draw) parent() string {
	return pick(
		d, fmt.Sprintf(`{"name": %q, "namespace": %q}`, d.name(), d.in()), fmt.Sprintf(`{"name": "r1"%s}`, pick(d, "", `, "sectionName": "one"`, `, "port": 80`)),
		fmt.Sprintf(`{"kind": "ListenerSet", "name": %q, "namespace": %q}`, d.name(), d.in()),
		fmt.Sprintf(`{"group": "networking.istio.io", "kind": "ServiceEntry", "name": %q, "namespace": %q%s}`, d.name(), d.in(), pick(d, "", `, "port": 80`)),
		fmt.Sprintf(`{"group": "", "kind": "Service", "name": "short", "namespace": %q}`, d.in()),
	)
}

func (d draw) backend() string {
	return pick(
		d, fmt.Sprintf(`{"group": "networking.istio.io", "kind": "Hostname", "name": %q, "port": 80}`, pick(d, "a.com", "x.a.com")),
		fmt.Sprintf(`{"group": "networking.istio.io", "kind": "ServiceEntry", "name": %q, "namespace": %q, "weight": %d}`, d.name(), d.in(), d.IntN(3)),
		fmt.Sprintf(`{"name": "short", "namespace": %q, "port": 80}`, d.in()),
		fmt.Sprintf(`{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": %q, "namespace": %q}`, d.name(), d.in()),
	)
}

func (d draw) pool(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"selector": {"matchLabels": {"app": %q}}, "targetPorts": [{"number": %d}%s], "endpointPickerRef": {%s, "port": {"number": 80}%s}}`,
		pick(d, "a", "b"), 8000+d.IntN(2), pick(d, "", `, {"number": 8002}`),
		pick(d, `"name": "short"`, fmt.Sprintf(`"group": "networking.istio.io", "kind": "ServiceEntry", "name": %q`, d.name()), `"group": "networking.istio.io", "kind": "Hostname", "name": "a.com"`),
		pick(d, "", `, "failureMode": "FailOpen"`)))
}

// pods are those that a registry says a pool has.
func (d draw) pods() (all []*networking.WorkloadEntry) {
	for range d.IntN(3) {
		all = append(all, &networking.WorkloadEntry{Address: d.address(), Labels: d.labels(), ServiceAccount: pick(d, "", "account"), Locality: pick(d, "", "r/z")})
	}
	return all
}

func (d draw) grant(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"from": [{"group": "gateway.networking.k8s.io", "kind": %q, "namespace": %q}], "to": [{"group": "", "kind": "Secret"}, %s]}`, pick(d, "HTTPRoute", "Gateway"), d.in(),
		pick(d, `{"group": "", "kind": "Service"}`, `{"group": "networking.istio.io", "kind": "ServiceEntry", "name": "r1"}`)))
}

func (d draw) backendTLS(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"targetRefs": [%s%s], "validation": {"hostname": %q, %s%s}}`, d.tlsTarget(), pick(d, "", ", "+d.tlsTarget()), pick(d, "a.com", "a.com", ""),
		pick(d, `"wellKnownCACertificates": "System"`, `"wellKnownCACertificates": "example.com/mine"`,
			fmt.Sprintf(`"caCertificateRefs": [{"group": "", "kind": %q, "name": %q}%s]`, pick(d, "Secret", "Secret", "ConfigMap", "Thing"), d.name(),
				pick(d, "", fmt.Sprintf(`, {"group": "", "kind": "Secret", "name": %q}`, d.name())))),
		pick(d, "", fmt.Sprintf(`, "subjectAltNames": [{"type": "URI", "uri": %q}]`, "spiffe://cluster.local/"+d.identity()))))
}

func (d draw) tlsTarget() string {
	return pick(
		d, fmt.Sprintf(`{"group": "networking.istio.io", "kind": "Hostname", "name": %q%s}`, pick(d, "a.com", "x.a.com", "*.a.com"), d.section()),
		fmt.Sprintf(`{"group": "networking.istio.io", "kind": "Hostname", "name": %q%s}`, pick(d, "a.com", "x.a.com", "b.com"), d.section()),
		fmt.Sprintf(`{"group": "networking.istio.io", "kind": "ServiceEntry", "name": %q%s}`, d.name(), d.section()),
		`{"group": "", "kind": "Service", "name": "short"}`, `{"group": "", "kind": "Thing", "name": "short"}`,
	)
}

func (d draw) section() string {
	return pick(d, "", `, "sectionName": "p80"`, `, "sectionName": "p81"`)
}

func (d draw) backendTraffic(t *testing.T) *structpb.Struct {
	t.Helper()
	return object(t, fmt.Sprintf(`{"targetRefs": [%s%s]%s%s}`, d.tlsTarget(), pick(d, "", ", "+d.tlsTarget()),
		pick(d, "", `, "retryConstraint": {}`, `, "retryConstraint": {"budget": {"percent": 30, "interval": "5s"}, "minRetryRate": {"count": 3}}`), d.session()))
}

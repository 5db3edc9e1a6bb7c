package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

func gateway(name, servers string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %s, namespace: %s}
spec: {selector: {app: edge}, servers: [%s]}
`, name, namespace, servers)
}

func bound(name, rest string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: %s}
spec: {%s}
`, name, namespace, rest)
}

func router(labels map[string]string) *mesh.Proxy {
	return &mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.1"}, Namespace: "edge", Labels: labels}
}

var edge = map[string]string{"app": "edge"}

const (
	http80   = "{port: {number: 80, name: http, protocol: HTTP}, hosts: ['%s']}"
	https443 = "{port: {number: 443, name: %s, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: c}, hosts: ['%s']}"
	tcp      = "{port: {number: %d, name: tcp, protocol: TCP}, hosts: ['*']}"
	anyTCP   = "tcp: [{route: [{destination: {host: db}}]}]"
)

// sockets describes what a router exposes: "*:80 http.80 <names>; …".
func sockets(f *mesh.Frontend) string {
	var out []string
	for _, x := range f.Sockets {
		words := []string{fmt.Sprintf("%s:%d", x.Bind, x.Port)}
		for _, e := range x.Entrances {
			where := []string{e.Route}
			for _, to := range e.To {
				where = append(where, to.GetDestination().GetHost())
			}
			words = append(words, strings.Join(e.Names, ",")+">"+strings.Join(where, ""))
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "; ")
}

func TestServersShareSocketsWhereTheyCan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config, want, problem string }{
		{
			"HTTP shares its port and its routes",
			gateway("a/one", fmt.Sprintf(http80, "x.com")) + gateway("a/two", fmt.Sprintf(http80, "y.com")),
			":80 >http.80", "",
		},
		{
			"HTTP and TCP cannot share",
			gateway("a/one", fmt.Sprintf(http80, "x.com")) + gateway("a/two", fmt.Sprintf(tcp, 80)),
			":80 >http.80", "Gateway a/two spec.servers[0]: the port is taken by port 80 of Gateway a/one, which speaks HTTP: a server of TCP beside it is left out",
		},
		{
			"the second TCP server has the port of the first, also if nothing routes to that",
			gateway("a/one", fmt.Sprintf(tcp, 9000)) + gateway("a/two", fmt.Sprintf(tcp, 9000)) +
				bound("edge/db", "hosts: ['*'], gateways: [a/two], "+anyTCP),
			"", "Gateway a/two spec.servers[0]: the port is taken by port 9000 of Gateway a/one",
		},
		{
			"TLS is told apart by names",
			gateway("a/one", fmt.Sprintf(https443, "x", "x.com")+","+fmt.Sprintf(https443, "y", "*.y.com")),
			":443 x.com>https.443.x.one.a *.y.com>https.443.y.one.a", "",
		},
		{
			"a host of TLS belongs to the older",
			gateway("a/one", fmt.Sprintf(https443, "x", "x.com")) + gateway("b/two", fmt.Sprintf(https443, "x", "x.com")),
			":443 x.com>https.443.x.one.a", "Gateway b/two spec.servers[0]: host x.com is served by port 443 of Gateway a/one already",
		},
		{
			"names of TLS know no namespaces",
			gateway("a/one", fmt.Sprintf(https443, "x", "./*")) + gateway("b/two", fmt.Sprintf(https443, "x", "./*")),
			":443 >https.443.x.one.a", "Gateway b/two spec.servers[0]: connections for one of its hosts belong to port 443 of Gateway a/one already",
		},
		{
			"HTTP may come to a port of TLS, not TLS to one of HTTP",
			gateway("a/one", fmt.Sprintf(https443, "x", "x.com")) +
				gateway("a/two", strings.ReplaceAll(fmt.Sprintf(http80, "x.com"), "80", "443")) +
				gateway("a/zwei", fmt.Sprintf(https443, "x", "y.com")),
			":443 x.com>https.443.x.one.a >http.443", "Gateway a/zwei spec.servers[0]: the port is taken by port 443 of Gateway a/two",
		},
		{
			"other addresses are other sockets",
			gateway("a/one", "{port: {number: 80, name: http, protocol: HTTP}, bind: 10.0.0.9, hosts: [x.com]}") +
				gateway("a/two", fmt.Sprintf(tcp, 80)) + bound("edge/db", "hosts: [y.com], gateways: [a/two], "+anyTCP),
			"10.0.0.9:80 >http.80.10.0.0.9; :80 >db.edge.svc.cluster.local", "",
		},
		{
			"connections that pass are told apart by the names of the rules",
			gateway("a/one", "{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: ['*']}") +
				bound("edge/one", "hosts: [a.com, b.com], gateways: [a/one], tls: [{match: [{sniHosts: [a.com]}, {sniHosts: [b.com], port: 444}], route: [{destination: {host: a}}]}]") +
				bound("edge/two", "hosts: [a.com, b.com], gateways: [a/one], tls: [{match: [{sniHosts: [a.com]}, {sniHosts: [b.com]}], route: [{destination: {host: b}}]}]"),
			":443 a.com>a.edge.svc.cluster.local b.com>b.edge.svc.cluster.local",
			"VirtualService edge/two spec.tls[0].match[0]: one of these server names has VirtualService edge/one already, on port 443 of Gateway a/one",
		},
	} {
		f := build(t, c.config).Frontend(router(edge))
		require.Equal(t, c.want, sockets(f), c.name)
		if c.problem == "" {
			require.Empty(t, f.Problems, c.name)
			continue
		}
		require.Len(t, f.Problems, 1, c.name)
		p := f.Problems[0]
		require.Contains(t, fmt.Sprintf("%s %s: %s", p.Of, p.Path, p.Reason), c.problem, c.name)
	}
}

func TestAGatewayIsForTheRoutersThatItSelects(t *testing.T) {
	t.Parallel()
	m := build(t, gateway("a/one", fmt.Sprintf(http80, "x.com"))+entry("machine", "edge",
		"hosts: [machine.example.com], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], endpoints: [{address: 10.0.0.7, labels: {app: edge}}]"))
	require.Empty(t, m.Frontend(router(nil)).Sockets)
	require.Equal(t, ":80 >http.80", sockets(m.Frontend(router(edge))))

	// An endpoint with the router's labels is the router, and a port of its service means the port
	// behind it.
	known := router(map[string]string{"app": "edge", "rack": "7"})
	known.Addresses = []string{"10.0.0.7"}
	require.Equal(t, ":8080 >http.8080", sockets(m.Frontend(known)))

	// Any other endpoint at its address is an application on the same machine.
	known.Labels = map[string]string{"rack": "7"}
	require.Empty(t, m.Targets(known))

	unprivileged := router(edge)
	unprivileged.Unprivileged = true
	f := m.Frontend(unprivileged)
	require.Empty(t, f.Sockets)
	require.Contains(t, f.Problems[0].Reason, "port 80 is left out there")
}

func TestASidecarsLabelsAreThoseOfItsWorkload(t *testing.T) {
	t.Parallel()
	m := build(t, entry("web", "shop", "hosts: [web.shop], "+port80+", endpoints: [{address: 10.0.0.7, labels: {app: web}}, {address: 10.0.0.8}]"))
	claims := map[string]string{"app": "pretends"}
	proxy := sidecar("shop", claims, "10.0.0.7")
	proxy.StaticLabels = map[string]string{"rack": "7"}
	require.Equal(t, map[string]string{"app": "web", "rack": "7"}, m.Known(proxy).Labels)
	require.Equal(t, claims, m.Known(sidecar("shop", claims, "10.0.0.8")).Labels, "an endpoint without labels says nothing")
	require.Equal(t, claims, m.Known(sidecar("other", claims, "10.0.0.7")).Labels, "another namespace says nothing either")
}

func TestHostsOfAServerAreForRulesOfTheirNamespaces(t *testing.T) {
	t.Parallel()
	m := build(t, gateway("a/one", "{port: {number: 80, name: http, protocol: HTTP}, hosts: [./own.com, shop/*.shop.com, '*/any.com', Bare.com]}")+
		bound("a/vs", "hosts: ['*'], gateways: [one], http: [{route: [{destination: {host: a}}]}]")+
		bound("shop/vs", "hosts: [own.com, x.shop.com, any.com, bare.com], gateways: [a/one], http: [{route: [{destination: {host: a}}]}]"))
	server := m.Frontend(router(edge)).Routes["http.80"][0]
	rules := m.VirtualServicesOf("a/one", "edge")
	require.Equal(t, []string{"own.com", "any.com", "bare.com"}, server.HostsFor(rules[0]))
	require.Equal(t, []string{"x.shop.com", "any.com", "bare.com"}, server.HostsFor(rules[1]))
}

func TestRulesOfAGatewayAreThoseExportedToTheRouter(t *testing.T) {
	t.Parallel()
	const rest = "hosts: [x.com], gateways: [a/one, mesh], http: [{route: [{destination: {host: a}}]}], exportTo: ['%s']"
	m := build(t, bound("edge/private", fmt.Sprintf(rest, "."))+bound("other/hidden", fmt.Sprintf(rest, "."))+
		bound("other/public", fmt.Sprintf(rest, "*"))+bound("other/named", fmt.Sprintf(rest, "edge")))
	var names []string
	for _, vs := range m.VirtualServicesOf("a/one", "edge") {
		names = append(names, vs.Resource.Name)
	}
	require.Equal(t, []string{"private", "named", "public"}, names)
	require.Len(t, m.Scope(sidecar("edge", nil)).Egress[0].VirtualServices, 3)
}

// Envoy refuses a second listener at an address, and with it, if there is one listener for all
// addresses, what everybody else has there.
func TestServersDoNotListenAtOneAddressTwice(t *testing.T) {
	t.Parallel()
	server := "{bind: '%s', port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}"
	m := build(t, gateway("edge/a", fmt.Sprintf(http80, "*"))+gateway("evil/b", fmt.Sprintf(server, "::"))+
		gateway("edge/c", fmt.Sprintf(server, "fd00::1"))+gateway("evil/d", fmt.Sprintf(server, "FD00:0::1")))
	p := router(edge)
	p.Addresses = []string{"10.0.0.1", "fd00::1"}
	f := m.Frontend(p)
	require.Equal(t, ":80 >http.80; fd00::1:80 >http.80.fd00::1", sockets(f))
	require.Len(t, f.Problems, 1)
	require.Equal(t, "evil/b", f.Problems[0].Of.Namespace+"/"+f.Problems[0].Of.Name)
	require.Contains(t, f.Problems[0].Reason, "listens on port 80 of all addresses already")

	p.Addresses = []string{"10.0.0.1"}
	require.Empty(t, m.Frontend(p).Problems, "there is one family: the addresses differ")
}

// With this setting, a router belongs to its namespace, and nobody else opens ports on it.
func TestRoutersServeTheGatewaysOfTheirNamespaceAlone(t *testing.T) {
	t.Parallel()
	text := gateway("edge/own", fmt.Sprintf(http80, "a.com")) + gateway("evil/other", fmt.Sprintf(tcp, 9000)) +
		bound("edge/a", "hosts: [a.com], gateways: [own], http: [{route: [{destination: {host: a}}]}]") + bound("evil/b", "hosts: [b.com], gateways: [other], "+anyTCP)
	for own, ports := range map[bool]int{false: 2, true: 1} {
		store := configstore.New()
		m := mesh.Build(apply(t, store, text), mesh.First(own))
		for _, next := range []*mesh.Mesh{m, m.WithTrust(mesh.Trust{Revoked: []string{"ns/x/sa/y"}}), mesh.Build(apply(t, store, text), m)} {
			require.Len(t, next.Frontend(router(edge)).Sockets, ports)
		}
		told := m.WithTrust(mesh.Trust{OwnGateways: true})
		require.Len(t, told.Frontend(router(edge)).Sockets, 1, "the mesh says so, too")
		require.Len(t, told.WithTrust(mesh.Trust{}).Frontend(router(edge)).Sockets, ports)
	}
}

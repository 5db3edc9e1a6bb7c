package e2e

import (
	"fmt"
	"strings"
)

// service is a ServiceEntry for an HTTP host with one endpoint for each backend, whose label
// "version" is the backend's name.
func (m *mesh) service(host string, backends ...*backend) string {
	endpoints := make([]string, len(backends))
	for i, b := range backends {
		endpoints[i] = endpoint(b.name, "http", b.port)
	}
	return entry(host, "HTTP", "http", m.port, endpoints)
}

// tcpService is the same for TCP, on a port of its own.
func tcpService(host, port string, greeters ...*greeter) string {
	endpoints := make([]string, len(greeters))
	for i, g := range greeters {
		endpoints[i] = endpoint(g.name, "tcp", g.port)
	}
	return entry(host, "TCP", "tcp", port, endpoints)
}

func endpoint(version, portName, port string) string {
	return fmt.Sprintf("{address: 127.0.0.1, ports: {%s: %s}, labels: {version: %s}}", portName, port, version)
}

// nameOf is the name of a host's resources.
func nameOf(host string) string { return strings.TrimSuffix(host, ".mesh") }

func entry(host, protocol, portName, port string, endpoints []string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s}
spec:
  hosts: [%s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: %s, number: %s, protocol: %s}]
  endpoints: [%s]
`, nameOf(host), host, portName, port, protocol, strings.Join(endpoints, ", "))
}

// subsets is a DestinationRule with a subset for each version.
func subsets(host string, versions ...string) string {
	list := make([]string, len(versions))
	for i, v := range versions {
		list[i] = fmt.Sprintf("{name: %[1]q, labels: {version: %[1]q}}", v)
	}
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %s}
spec: {host: %s, subsets: [%s]}
`, nameOf(host), host, strings.Join(list, ", "))
}

// virtualService is a VirtualService for one host; rules is the rest of its spec.
func virtualService(host, rules string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s}
spec:
  hosts: [%s]
%s
`, nameOf(host), host, indent(rules))
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// split are the rules of a VirtualService that divide a host's requests between subsets.
func split(host string, weights ...weight) string {
	list := make([]string, len(weights))
	for i, w := range weights {
		list[i] = fmt.Sprintf("{destination: {host: %s, subset: %s}, weight: %d}", host, w.subset, w.of100)
	}
	return "http: [{route: [" + strings.Join(list, ", ") + "]}]"
}

type weight struct {
	subset string
	of100  int
}

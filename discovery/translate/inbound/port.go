package inbound

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/kinds"
)

// servedPort is one port of the workload or, with number 0, all those that nobody names.
type servedPort struct {
	filter.Context
	binding.Binding

	port     uint32 // that connections come to
	service  string // the host of the oldest service on the port
	number   uint32 // that service's port
	portName string // and what it is called
	protocol mesh.Protocol
	cluster  string
	unnamed  bool // by any service or Sidecar

	from *kinds.Resource               // the Sidecar that asks for it
	tls  *networking.ServerTLSSettings // what the Sidecar says of its TLS
}

// portsOf lists the ports that the Sidecar names or, if it names none, those of the services that
// the workload serves. Without redirection the latter would take the ports of the application
// itself.
func portsOf(c filter.Context) []servedPort {
	if ingress := c.Scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		return ingressPorts(c, ingress)
	}
	if !c.Intercepted() {
		return nil
	}
	var out []servedPort
	for _, served := range binding.ByListeningPort(c.Mesh.Targets(c.Proxy)) {
		first := served[0]
		if binding.Reserved(c.View, first.Number) {
			continue
		}
		out = append(out, servedPort{
			Context: c, Binding: binding.Binding{Binds: c.Wildcards()}, port: first.Number, service: first.Service.Hostname,
			number: first.Port.Number, portName: first.Port.Name, protocol: first.Port.Protocol, cluster: naming.InboundCluster(first.Number),
		})
	}
	return out
}

// ingressPorts lists the ports that the Sidecar names, in ascending order. Of several for a port
// the first counts.
func ingressPorts(c filter.Context, ingress []*networking.IstioIngressListener) []servedPort {
	var out []servedPort
	for _, spec := range ingress {
		in := servedPort{
			Context: c, Binding: binding.OfIngress(c.View, spec), port: spec.GetPort().GetNumber(), number: spec.GetPort().GetNumber(),
			service: binding.SidecarName(c.View), portName: spec.GetPort().GetName(),
			protocol: mesh.ParseProtocol(spec.GetPort().GetProtocol()), from: c.Scope.Sidecar, tls: spec.GetTls(),
		}
		if in.tls != nil && in.mutualTLS() == mesh.PlaintextOnly {
			in.protocol = insideTLS(in.protocol)
		}
		in.cluster = naming.InboundCluster(in.port)
		taken := slices.ContainsFunc(out, func(other servedPort) bool { return other.port == in.port })
		if !taken && canAccept(c.View, in, spec.GetBind()) {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b servedPort) int { return cmp.Compare(a.port, b.port) })
	return out
}

// insideTLS is what a protocol is once TLS has ended.
func insideTLS(p mesh.Protocol) mesh.Protocol {
	switch p { //nolint:exhaustive // the others have no TLS of their own
	case mesh.ProtocolHTTPS:
		return mesh.ProtocolHTTP
	case mesh.ProtocolTLS:
		return mesh.ProtocolTCP
	default:
		return p
	}
}

// canAccept reports whether a listener for the port can exist. Wanted is the address that the
// Sidecar names, or "".
func canAccept(v view.View, in servedPort, wanted string) bool {
	if in.Explicit && binding.Privileged(v, in.port) {
		return false
	}
	everywhere := wanted == "" && in.protocol.IsHTTP() || wanted == v.Wildcards()[0]
	return !everywhere || !slices.Contains(v.Proxy.ReservedPorts, in.port)
}

// unnamedPorts are all ports that nobody names, and by themselves those of them of which a
// PeerAuthentication speaks.
func unnamedPorts(c filter.Context) []servedPort {
	ports := []uint32{0}
	for _, port := range c.Mesh.MutualTLSPorts(c.Proxy.Namespace, c.Proxy.Labels) {
		if !named(c.View, port) {
			ports = append(ports, port)
		}
	}
	out := make([]servedPort, len(ports))
	for i, port := range ports {
		out[i] = servedPort{
			Context: c, Binding: binding.Binding{Binds: c.Wildcards()}, port: port, cluster: naming.InboundPassthroughCluster,
			protocol: mesh.ProtocolSniffed, unnamed: true,
		}
	}
	return out
}

// named reports whether the Sidecar, or, if it names none, a service, names the port.
func named(v view.View, port uint32) bool {
	if ingress := v.Scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		return slices.ContainsFunc(ingress, func(i *networking.IstioIngressListener) bool { return i.GetPort().GetNumber() == port })
	}
	return slices.ContainsFunc(v.Mesh.Targets(v.Proxy), func(t mesh.Target) bool { return t.Number == port && !t.TakesDatagrams() })
}

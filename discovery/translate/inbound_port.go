package translate

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/kinds"
)

// inboundPort is one port of the workload, or, with port 0, all those that nobody names.
type inboundPort struct {
	filtering
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

// inboundPorts are those that the Sidecar names, or, if it names none, those of the services that the workload serves. Without
// redirection the latter would take the ports of the application itself.
func (v filtering) inboundPorts() []inboundPort {
	if ingress := v.Scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		return v.ingressPorts(ingress)
	}
	if !v.Intercepted() {
		return nil
	}
	var out []inboundPort
	for _, served := range binding.ByListeningPort(v.Mesh.Targets(v.Proxy)) {
		first := served[0]
		if binding.Reserved(v.View, first.Number) {
			continue
		}
		out = append(out, inboundPort{
			filtering: v, Binding: binding.Binding{Binds: v.Wildcards()}, port: first.Number, service: first.Service.Hostname,
			number: first.Port.Number, portName: first.Port.Name, protocol: first.Port.Protocol, cluster: naming.InboundCluster(first.Number),
		})
	}
	return out
}

// ingressPorts are in ascending order. Of several for a port the first counts.
func (v filtering) ingressPorts(ingress []*networking.IstioIngressListener) []inboundPort {
	var out []inboundPort
	for _, spec := range ingress {
		in := inboundPort{
			filtering: v, Binding: binding.OfIngress(v.View, spec), port: spec.GetPort().GetNumber(), number: spec.GetPort().GetNumber(),
			service: binding.SidecarName(v.View), portName: spec.GetPort().GetName(),
			protocol: mesh.ParseProtocol(spec.GetPort().GetProtocol()), from: v.Scope.Sidecar, tls: spec.GetTls(),
		}
		if in.tls != nil && in.mutualTLS() == mesh.PlaintextOnly {
			in.protocol = insideTLS(in.protocol)
		}
		in.cluster = naming.InboundCluster(in.port)
		taken := slices.ContainsFunc(out, func(other inboundPort) bool { return other.port == in.port })
		if !taken && canAccept(v.View, in, spec.GetBind()) {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b inboundPort) int { return cmp.Compare(a.port, b.port) })
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

// canAccept is canBind for what comes in; wanted is the address that the Sidecar names, if it does.
func canAccept(v view.View, in inboundPort, wanted string) bool {
	if in.Explicit && binding.Privileged(v, in.port) {
		return false
	}
	everywhere := wanted == "" && in.protocol.IsHTTP() || wanted == v.Wildcards()[0]
	return !everywhere || !slices.Contains(v.Proxy.ReservedPorts, in.port)
}

// unnamedPorts are all ports that nobody names, and those of them for which a PeerAuthentication demands something of its own.
func (v filtering) unnamedPorts() []inboundPort {
	ports := []uint32{0}
	for _, port := range v.Mesh.MutualTLSPorts(v.Proxy.Namespace, v.Proxy.Labels) {
		if !named(v.View, port) {
			ports = append(ports, port)
		}
	}
	out := make([]inboundPort, len(ports))
	for i, port := range ports {
		out[i] = inboundPort{
			filtering: v, Binding: binding.Binding{Binds: v.Wildcards()}, port: port, cluster: naming.InboundPassthroughCluster,
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
	return slices.ContainsFunc(v.Mesh.Targets(v.Proxy), func(t mesh.Target) bool { return t.Number == port })
}

func (in inboundPort) httpName() string {
	if in.unnamed {
		return naming.VirtualInbound + "-catchall-http"
	}
	return in.tcpName()
}

func (in inboundPort) tcpName() string {
	if in.unnamed {
		return naming.VirtualInbound
	}
	return naming.Listener(in.Binding.Binds[0], in.port)
}

func (in inboundPort) statPrefix() string {
	if in.unnamed {
		return in.cluster
	}
	return "inbound_" + in.tcpName()
}

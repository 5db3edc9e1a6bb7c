package translate

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// inboundPort is one port of the workload, or, with port 0, all those that nobody names.
type inboundPort struct {
	view
	binding

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
func (v view) inboundPorts() []inboundPort {
	if ingress := v.scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		return v.ingressPorts(ingress)
	}
	if !v.intercepted() {
		return nil
	}
	var out []inboundPort
	for _, served := range byListeningPort(v.mesh.Targets(v.proxy)) {
		first := served[0]
		if v.reserved(first.Number) {
			continue
		}
		out = append(out, inboundPort{
			view: v, binding: binding{binds: v.wildcards()}, port: first.Number, service: first.Service.Hostname,
			number: first.Port.Number, portName: first.Port.Name, protocol: first.Port.Protocol, cluster: InboundClusterName(first.Number),
		})
	}
	return out
}

// ingressPorts are in ascending order. Of several for a port the first counts.
func (v view) ingressPorts(ingress []*networking.IstioIngressListener) []inboundPort {
	var out []inboundPort
	for _, spec := range ingress {
		in := inboundPort{
			view: v, binding: v.ingressBinding(spec), port: spec.GetPort().GetNumber(), number: spec.GetPort().GetNumber(),
			service: v.sidecarName(), portName: spec.GetPort().GetName(),
			protocol: mesh.ParseProtocol(spec.GetPort().GetProtocol()), from: v.scope.Sidecar, tls: spec.GetTls(),
		}
		if in.tls != nil && in.mutualTLS() == mesh.PlaintextOnly {
			in.protocol = insideTLS(in.protocol)
		}
		in.cluster = InboundClusterName(in.port)
		taken := slices.ContainsFunc(out, func(other inboundPort) bool { return other.port == in.port })
		if !taken && v.canAccept(in, spec.GetBind()) {
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

// ingressBinding is where the Sidecar says, or at the machine's own address: the application may then have the port on loopback.
func (v view) ingressBinding(spec *networking.IstioIngressListener) binding {
	b := binding{binds: v.wildcards()}
	switch own := v.proxy.GlobalAddress(); {
	case spec.GetBind() != "":
		b.binds = []string{spec.GetBind()}
	case own != "":
		b.binds = []string{own}
	}
	switch spec.GetCaptureMode() {
	case networking.CaptureMode_NONE:
		b.explicit = true
	case networking.CaptureMode_DEFAULT:
		b.explicit = !v.intercepted()
	case networking.CaptureMode_IPTABLES:
	}
	return b
}

// canAccept is canBind for what comes in; wanted is the address that the Sidecar names, if it does.
func (v view) canAccept(in inboundPort, wanted string) bool {
	if in.explicit && v.privileged(in.port) {
		return false
	}
	everywhere := wanted == "" && in.protocol.IsHTTP() || wanted == v.wildcards()[0]
	return !everywhere || !slices.Contains(v.proxy.ReservedPorts, in.port)
}

// unnamedPorts are all ports that nobody names, and those of them for which a PeerAuthentication demands something of its own.
func (v view) unnamedPorts() []inboundPort {
	ports := []uint32{0}
	for _, port := range v.mesh.MutualTLSPorts(v.proxy.Namespace, v.proxy.Labels) {
		if !v.named(port) {
			ports = append(ports, port)
		}
	}
	out := make([]inboundPort, len(ports))
	for i, port := range ports {
		out[i] = inboundPort{
			view: v, binding: binding{binds: v.wildcards()}, port: port, cluster: InboundPassthroughCluster,
			protocol: mesh.ProtocolSniffed, unnamed: true,
		}
	}
	return out
}

// named reports whether the Sidecar, or, if it names none, a service, names the port.
func (v view) named(port uint32) bool {
	if ingress := v.scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		return slices.ContainsFunc(ingress, func(i *networking.IstioIngressListener) bool { return i.GetPort().GetNumber() == port })
	}
	return slices.ContainsFunc(v.mesh.Targets(v.proxy), func(t mesh.Target) bool { return t.Number == port })
}

func (in inboundPort) httpName() string {
	if in.unnamed {
		return VirtualInbound + "-catchall-http"
	}
	return in.tcpName()
}

func (in inboundPort) tcpName() string {
	if in.unnamed {
		return VirtualInbound
	}
	return listenerName(in.binding.binds[0], in.port)
}

func (in inboundPort) statPrefix() string {
	if in.unnamed {
		return in.cluster
	}
	return "inbound_" + in.tcpName()
}

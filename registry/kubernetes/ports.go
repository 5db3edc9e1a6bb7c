package kubernetes

import (
	"cmp"

	"github.com/pgmesh/pgmesh/internal/portprotocol"
	"github.com/pgmesh/pgmesh/registry/service"
)

// udp is the protocol of ports whose datagrams only gateways carry.
const udp = "UDP"

// isTCP reports whether a port of Kubernetes has connections that proxies carry.
func isTCP(protocol string) bool { return protocol == "" || protocol == "TCP" }

// isServed reports whether a port of Kubernetes is one of the mesh. SCTP is not.
func isServed(protocol string) bool { return isTCP(protocol) || protocol == udp }

// protocol is UDP, or what is spoken on connections. What nobody has said is detected.
func (p *servicePort) protocol() string {
	if p.Protocol == udp {
		return udp
	}
	return cmp.Or(portprotocol.Of(p.AppProtocol, p.Name, p.Port), service.Detected)
}

// ports are those of the mesh.
func (o *serviceObject) ports() []service.Port {
	var out []service.Port
	for i := range o.Spec.Ports {
		if p := &o.Spec.Ports[i]; isServed(p.Protocol) {
			out = append(out, service.Port{Name: p.Name, Number: p.Port, Protocol: p.protocol(), Target: uint32(p.TargetPort)})
		}
	}
	return out
}

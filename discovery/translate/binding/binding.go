// Package binding says where a proxy listens: at which addresses and ports, and for whom.
package binding

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Binding is where a listener listens.
type Binding struct {
	// Binds has the main address first; without any, it is that of each service.
	Binds []string
	// Explicit listeners open their port. To others come connections that the machine redirects to virtualOutbound or
	// virtualInbound, and that one hands on by where they were meant to go.
	Explicit bool
}

// OfEgress is where a Sidecar has the applications of its workload connect to.
func OfEgress(v view.View, e *mesh.Egress) Binding {
	b := Binding{Explicit: e.Explicit || !v.Intercepted()}
	switch {
	case e.Bind != "":
		b.Binds = []string{e.Bind}
	case b.Explicit:
		b.Binds = v.Loopbacks()
	}
	return b
}

// Shared is where a listener for the requests of any service listens: they are told apart by their hosts.
func Shared(v view.View, b Binding) Binding {
	if len(b.Binds) == 0 {
		b.Binds = v.Wildcards()
	}
	return b
}

// CanBind reports whether an outbound listener for the port can exist: the proxy must be allowed to open it, and a listener for
// every address must not take what the proxy itself listens on.
func CanBind(v view.View, b Binding, port *mesh.Port) bool {
	switch {
	case b.Explicit && Privileged(v, port.Number):
		return false
	case len(b.Binds) == 0:
		return !port.Protocol.IsHTTP() || !Reserved(v, port.Number)
	case b.Explicit && !mesh.IsSocket(b.Binds[0]) && occupied(v, b.Binds[0], port.Number):
		return false
	default:
		return b.Binds[0] != v.Wildcards()[0] || !Reserved(v, port.Number)
	}
}

// Privileged reports whether only root may open the port, and the proxy is not root's. Port 0 stands for a socket with a path.
func Privileged(v view.View, port uint32) bool {
	return v.Proxy.Unprivileged && 0 < port && port < 1024
}

// Reserved reports whether the proxy itself listens on a port: for what is redirected, or for its health and metrics.
func Reserved(v view.View, port uint32) bool {
	return slices.Contains(v.Proxy.ReservedPorts, port) ||
		port == uint32(v.Config.GetProxyListenPort()) || port == uint32(v.Config.GetProxyInboundListenPort())
}

// occupied reports whether an address is somebody else's: the proxy port's, that of a listener that the Sidecar opens, or the
// application's own, which the Sidecar says is there.
func occupied(v view.View, bind string, port uint32) bool {
	if port == v.HTTPProxyPort() && slices.Contains(v.Loopbacks(), bind) {
		return true
	}
	return slices.ContainsFunc(v.Scope.SidecarSpec.GetIngress(), func(spec *networking.IstioIngressListener) bool {
		if b := OfIngress(v, spec); b.Explicit && spec.GetPort().GetNumber() == port && (slices.Contains(b.Binds, bind) || b.Binds[0] == v.Wildcards()[0]) {
			return true
		}
		address, _ := DefaultEndpoint(v, spec)
		socket := address.GetSocketAddress()
		return socket.GetAddress() == bind && socket.GetPortValue() == port
	})
}

// OfIngress is where the Sidecar says, or at the machine's own address: the application may then have the port on loopback.
func OfIngress(v view.View, spec *networking.IstioIngressListener) Binding {
	b := Binding{Binds: v.Wildcards()}
	switch own := v.Proxy.GlobalAddress(); {
	case spec.GetBind() != "":
		b.Binds = []string{spec.GetBind()}
	case own != "":
		b.Binds = []string{own}
	}
	switch spec.GetCaptureMode() {
	case networking.CaptureMode_NONE:
		b.Explicit = true
	case networking.CaptureMode_DEFAULT:
		b.Explicit = !v.Intercepted()
	case networking.CaptureMode_IPTABLES:
	}
	return b
}

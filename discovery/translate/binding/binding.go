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
	// Binds has the main address first. It is empty where each service has its own.
	Binds []string
	// Explicit listeners open their port. Others get connections that the machine redirects:
	// virtualOutbound or virtualInbound hands them on by where they were meant to go.
	Explicit bool
}

// OfEgress is where the applications of the workload connect to, by the Sidecar.
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

// Shared is where a listener for the requests of any service listens. Hosts tell the requests
// apart.
func Shared(v view.View, b Binding) Binding {
	if len(b.Binds) == 0 {
		b.Binds = v.Wildcards()
	}
	return b
}

// CanBind reports whether an outbound listener for the port can exist. The proxy must be allowed to
// open it, and a listener for every address must not take what the proxy itself listens on.
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

// Privileged reports whether only root may open the port, and the proxy is not root's. Port 0 means
// a socket with a path.
func Privileged(v view.View, port uint32) bool {
	return v.Proxy.Unprivileged && 0 < port && port < 1024
}

// Reserved reports whether the proxy itself listens on a port: for what is redirected, or for its
// health and metrics.
func Reserved(v view.View, port uint32) bool {
	return slices.Contains(v.Proxy.ReservedPorts, port) ||
		port == uint32(v.Config.GetProxyListenPort()) || port == uint32(v.Config.GetProxyInboundListenPort())
}

// occupied reports whether an address is taken: by the proxy port, by a listener that the Sidecar
// opens, or by the application, as the Sidecar says.
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

// OfIngress is where the Sidecar says, or else the machine's own address, so that the application
// may have the port on loopback.
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

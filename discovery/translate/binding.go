package translate

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// binding is where a listener listens.
type binding struct {
	// binds has the main address first; without any, it is that of each service.
	binds []string
	// explicit listeners open their port. To others come connections that the machine redirects to virtualOutbound or
	// virtualInbound, and that one hands on by where they were meant to go.
	explicit bool
}

// egressBinding is where a Sidecar has the applications of its workload connect to.
func (v view) egressBinding(e *mesh.Egress) binding {
	b := binding{explicit: e.Explicit || !v.intercepted()}
	switch {
	case e.Bind != "":
		b.binds = []string{e.Bind}
	case b.explicit:
		b.binds = v.loopbacks()
	}
	return b
}

// shared is where a listener for the requests of any service listens: they are told apart by their hosts.
func (v view) shared(b binding) binding {
	if len(b.binds) == 0 {
		b.binds = v.wildcards()
	}
	return b
}

// canBind reports whether an outbound listener for the port can exist: the proxy must be allowed to open it, and a listener for
// every address must not take what the proxy itself listens on.
func (v view) canBind(b binding, port *mesh.Port) bool {
	switch {
	case b.explicit && v.privileged(port.Number):
		return false
	case len(b.binds) == 0:
		return !port.Protocol.IsHTTP() || !v.reserved(port.Number)
	case b.explicit && !mesh.IsSocket(b.binds[0]) && v.occupied(b.binds[0], port.Number):
		return false
	default:
		return b.binds[0] != v.wildcards()[0] || !v.reserved(port.Number)
	}
}

// privileged reports whether only root may open the port, and the proxy is not root's. Port 0 stands for a socket with a path.
func (v view) privileged(port uint32) bool { return v.proxy.Unprivileged && 0 < port && port < 1024 }

// reserved reports whether the proxy itself listens on a port: for what is redirected, or for its health and metrics.
func (v view) reserved(port uint32) bool {
	return slices.Contains(v.proxy.ReservedPorts, port) ||
		port == uint32(v.config.GetProxyListenPort()) || port == uint32(v.config.GetProxyInboundListenPort())
}

// occupied reports whether an address is somebody else's: the proxy port's, that of a listener that the Sidecar opens, or the
// application's own, which the Sidecar says is there.
func (v view) occupied(bind string, port uint32) bool {
	if port == v.httpProxyPort() && slices.Contains(v.loopbacks(), bind) {
		return true
	}
	return slices.ContainsFunc(v.scope.SidecarSpec.GetIngress(), func(spec *networking.IstioIngressListener) bool {
		if b := v.ingressBinding(spec); b.explicit && spec.GetPort().GetNumber() == port && (slices.Contains(b.binds, bind) || b.binds[0] == v.wildcards()[0]) {
			return true
		}
		address, _ := v.defaultEndpoint(spec)
		socket := address.GetSocketAddress()
		return socket.GetAddress() == bind && socket.GetPortValue() == port
	})
}

// bindAddress is an address, or a socket as unix:///path.
func bindAddress(bind string, port uint32) *corev3.Address {
	if mesh.IsSocket(bind) {
		return pipeAddress(strings.TrimPrefix(bind, "unix://"))
	}
	return socketAddress(bind, port)
}

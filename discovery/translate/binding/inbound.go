package binding

import (
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// ByListeningPort groups targets by the port that the workload listens on for connections, in
// ascending order of it.
func ByListeningPort(targets []mesh.Target) [][]mesh.Target {
	groups := map[uint32][]mesh.Target{}
	var ports []uint32
	for _, t := range targets {
		if t.TakesDatagrams() {
			continue
		}
		if groups[t.Number] == nil {
			ports = append(ports, t.Number)
		}
		groups[t.Number] = append(groups[t.Number], t)
	}
	slices.Sort(ports)
	out := make([][]mesh.Target, len(ports))
	for i, port := range ports {
		out[i] = groups[port]
	}
	return out
}

// DefaultEndpoint is where the application listens: a socket, loopback, or the machine's own
// address (written as the unspecified one). If the Sidecar does not say, it is where the client
// meant to connect, or loopback if that was the sidecar itself.
func DefaultEndpoint(v view.View, spec *networking.IstioIngressListener) (address *corev3.Address, loopback bool) {
	text := spec.GetDefaultEndpoint()
	if mesh.IsSocket(text) {
		return message.BindAddress(text, 0), false
	}
	if b := OfIngress(v, spec); text == "" && b.Explicit && b.Binds[0] == v.Proxy.GlobalAddress() {
		return message.SocketAddress(v.Loopbacks()[0], spec.GetPort().GetNumber()), true
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil, false
	}
	host := localAddress(v, at.Addr())
	return message.SocketAddress(host.String(), uint32(at.Port())), host.IsLoopback()
}

// localAddress is the machine's own address, or loopback, in the family that is asked for if the
// machine has it.
func localAddress(v view.View, wanted netip.Addr) netip.Addr {
	if wanted.IsUnspecified() {
		for _, own := range v.Proxy.Addresses {
			if ip, err := netip.ParseAddr(own); err == nil && ip.Is4() == wanted.Is4() {
				return ip
			}
		}
		if wanted.Is4() {
			return netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		return netip.IPv6Loopback()
	}
	loopbacks := v.Loopbacks()
	if slices.Contains(loopbacks, wanted.String()) {
		return wanted
	}
	return netip.MustParseAddr(loopbacks[0])
}

// SidecarName stands for a service if the Sidecar names a port that no service has.
func SidecarName(v view.View) string { return v.Scope.Sidecar.Name + "." + v.Scope.Namespace }

package translate

import (
	"net/netip"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
)

// places are the addresses and ports that listeners have. Envoy refuses the second listener at a place, also where neither opens the port. It
// is not told of one: what Envoy would refuse might be the listener by which everything comes in.
type places map[netip.AddrPort]bool

// ownPlaces are those that nobody's service may have: where what is redirected comes to, where the proxy tells of its health, where it is an
// HTTP proxy, and where the Sidecar has it listen for what comes in.
func (v filtering) ownPlaces() places {
	p := places{}
	for _, port := range v.Proxy.ReservedPorts {
		p.everywhere(port)
	}
	if v.Intercepted() {
		p.everywhere(uint32(v.Config.GetProxyListenPort()))
		p.everywhere(uint32(v.Config.GetProxyInboundListenPort()))
	}
	if port := v.HTTPProxyPort(); port != 0 {
		p.free(v.Loopbacks(), port)
	}
	if len(v.Scope.SidecarSpec.GetIngress()) > 0 {
		for _, in := range v.inboundPorts() {
			if in.Explicit {
				p.free(in.Binding.Binds, in.port)
			}
		}
	}
	return p
}

// everywhere takes a port at the addresses that stand for all, of either family.
func (p places) everywhere(port uint32) { p.free([]string{"0.0.0.0", "::"}, port) }

// free takes those of some addresses that nobody has, and returns them as they are written. Paths of sockets are told apart by their listeners'
// names.
func (p places) free(binds []string, port uint32) (free []string) {
	for _, bind := range binds {
		address, err := netip.ParseAddr(bind)
		at := netip.AddrPortFrom(address.Unmap().WithZone(""), uint16(port))
		switch {
		case err != nil:
			free = append(free, bind)
		case !p[at]:
			p[at] = true
			free = append(free, bind)
		}
	}
	return free
}

// besides leaves out listeners that have no place of their own, and of the others the addresses that somebody has. Those before are preferred.
func (v filtering) besides(p places, planned []*plannedListener) []*listenerv3.Listener {
	out := make([]*listenerv3.Listener, 0, len(planned))
	for _, l := range planned {
		free := p.free(l.Binds, l.port)
		if len(free) == 0 {
			continue
		}
		if len(free) < len(l.Binds) {
			l.Binds = slices.Clip(free)
		}
		out = append(out, v.outboundListener(l))
	}
	return out
}

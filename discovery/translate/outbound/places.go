package outbound

import (
	"net/netip"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/inbound"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// places are the addresses and ports that listeners have. Envoy refuses a second listener at a
// place, even if neither opens the port. So it is not sent one: what it refused might be the
// listener by which everything comes in.
type places map[netip.AddrPort]bool

// ownPlaces are those that no service may have: where redirected connections arrive, where the
// proxy tells of its health, where it is an HTTP proxy, and where the Sidecar has it listen for
// what comes in.
func ownPlaces(v view.View) places {
	p := places{}
	for _, port := range v.Proxy.ReservedPorts {
		p.everywhere(port)
	}
	if v.Intercepted() {
		p.everywhere(uint32(v.Config.GetProxyListenPort()))
		p.everywhere(uint32(v.Config.GetProxyInboundListenPort()))
	}
	if port := v.HTTPProxyPort(); port != 0 {
		p.take(v.Loopbacks(), port)
	}
	for _, in := range inbound.Openings(v) {
		p.take(in.Binds, in.Port)
	}
	return p
}

// everywhere takes a port at all addresses of either family.
func (p places) everywhere(port uint32) { p.take([]string{"0.0.0.0", "::"}, port) }

// take takes those of some addresses that are free, and returns them as they are written. Paths of
// sockets are all free: the names of their listeners tell them apart.
func (p places) take(binds []string, port uint32) (free []string) {
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

// besides leaves out listeners without a free place, and of the others the addresses that are
// taken. Who comes first is preferred.
func besides(c filter.Context, p places, order []*planned) []*listenerv3.Listener {
	out := make([]*listenerv3.Listener, 0, len(order))
	for _, l := range order {
		free := p.take(l.Binds, l.port)
		if len(free) == 0 {
			continue
		}
		if len(free) < len(l.Binds) {
			l.Binds = slices.Clip(free)
		}
		out = append(out, l.build(c))
	}
	return out
}

package endpoint

import (
	"math"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// asksFor reports whether the proxy wants endpoints of this one's network. Endpoints of no network
// are for everybody.
func asksFor(v view.View, e *mesh.Endpoint) bool {
	network := v.Mesh.NetworkOf(e)
	return len(v.Proxy.NetworkView) == 0 || network == "" || slices.Contains(v.Proxy.NetworkView, network)
}

// throughGateways puts the gateways of other networks in the place of what is behind them, with the
// weight of all of it. A gateway tells by the server name in the mesh's TLS what is wanted. So what
// takes no such TLS cannot be reached there, and a proxy without a certificate reaches nothing.
func throughGateways(v view.View, groups []group, u upstream.Upstream) []group {
	if !v.Mesh.HasNetworkGateways() {
		return groups
	}
	out := make([]group, len(groups))
	for i, g := range groups {
		out[i] = groupThroughGateways(v, g, u)
	}
	return out
}

// isAddressless tells of workloads of which only the network is known. They are reached through its
// gateways.
func (m member) isAddressless() bool {
	return m.address.GetPipe() == nil && m.address.GetSocketAddress().GetAddress() == ""
}

func groupThroughGateways(v view.View, g group, u upstream.Upstream) group {
	out := group{locality: g.locality, priority: g.priority}
	behind := map[mesh.NetworkGateway]member{}
	for _, m := range g.members {
		m.weight = scaled(m.weight, v.Mesh.NetworkScale())
		if reachesDirectly(v, m.network) {
			if !m.isAddressless() {
				out.members = append(out.members, m)
			}
			continue
		}
		if !crosses(v, u, m) {
			continue
		}
		gateways := usableGateways(v, v.Mesh.NetworkGateways(m.network), u)
		for _, at := range gateways {
			share := max(m.weight/uint32(len(gateways)), 1)
			behind[at] = gatewayMember(at, m.network, saturated(behind[at].weight, share))
		}
	}
	for _, at := range sortedGateways(behind) {
		out.members = append(out.members, behind[at])
	}
	out.weigh()
	return out
}

// reachesDirectly holds within a network, and to networks that have no gateways. A proxy whose own
// network nobody knows uses the gateways that there are.
func reachesDirectly(v view.View, network string) bool {
	return network == "" || !v.Mesh.BehindGateways(network) || network == v.Mesh.NetworkOfProxy(v.Proxy)
}

// crosses reports whether the proxy may go through gateways to what is behind them. A gateway
// between networks passes connections on in its own network alone: two that pass them on to each
// other would do so without end.
func crosses(v view.View, u upstream.Upstream, to member) bool {
	return !u.PassesTLS && !u.Datagrams && to.health != corev3.HealthStatus_UNHEALTHY && to.tlsMode == mesh.TLSMutual && v.Proxy.Identity.Known()
}

// usableGateways are those that the proxy can connect to. A name is one only where names are
// resolved.
func usableGateways(v view.View, gateways []mesh.NetworkGateway, u upstream.Upstream) []mesh.NetworkGateway {
	return slices.DeleteFunc(slices.Clone(gateways), func(g mesh.NetworkGateway) bool {
		ip, err := netip.ParseAddr(g.Address)
		if err != nil {
			return !u.Service.ResolvedByDNS()
		}
		if ip.Unmap().Is4() {
			return !v.Proxy.HasIPv4()
		}
		return !v.Proxy.HasIPv6()
	})
}

func gatewayMember(at mesh.NetworkGateway, network string, weight uint32) member {
	m := member{
		address: message.SocketAddress(at.Address, at.Port), network: network, labels: map[string]string{mesh.LabelNetwork: network},
		weight: weight, tlsMode: mesh.TLSMutual, tag: ";;;;",
	}
	if at.Unhealthy {
		m.health = corev3.HealthStatus_UNHEALTHY
	}
	return m
}

func sortedGateways(members map[mesh.NetworkGateway]member) []mesh.NetworkGateway {
	out := make([]mesh.NetworkGateway, 0, len(members))
	for at := range members {
		out = append(out, at)
	}
	slices.SortFunc(out, mesh.NetworkGateway.Compare)
	return out
}

// takingMutualTLS keeps the endpoints that mutual TLS can be passed on to. Gateways between networks
// are not among them, whoever declares an endpoint there: a connection that one gateway passes on to
// another, or to itself, would come back without end.
func takingMutualTLS(v view.View, groups []group) []group {
	out := slices.Clone(groups)
	for i := range out {
		out[i].members = slices.DeleteFunc(slices.Clone(out[i].members), func(m member) bool {
			at := m.address.GetSocketAddress()
			return m.tlsMode != mesh.TLSMutual || v.Mesh.IsNetworkGateway(at.GetAddress(), at.GetPortValue())
		})
		out[i].weigh()
	}
	return out
}

func scaled(weight, scale uint32) uint32 {
	if weight > math.MaxUint32/scale {
		return math.MaxUint32
	}
	return weight * scale
}

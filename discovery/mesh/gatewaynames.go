package mesh

import (
	"maps"
	"slices"
)

// GatewayAddresses are the addresses of gateways that a network is known to have by a name.
type GatewayAddresses map[string][]string

// GatewayNames lists the names of gateways that are to be resolved, each once, sorted.
func (m *Mesh) GatewayNames() []string { return m.networks.names }

// WithGatewayAddresses returns the same mesh with what the names of gateways resolve to now.
func (m *Mesh) WithGatewayAddresses(addresses GatewayAddresses) *Mesh {
	if sameAddresses(m.resolved, addresses) {
		return m
	}
	return build(m.from.FromItself(), m, given{keys: m.tokens.keys, trust: m.trust, addresses: addresses})
}

func (m *Mesh) sameAddresses(other *Mesh) bool { return sameAddresses(m.resolved, other.resolved) }

func sameAddresses(a, b GatewayAddresses) bool { return maps.EqualFunc(a, b, slices.Equal) }

// resolve puts the addresses of a name in its place. A name without addresses stays: proxies resolve
// it where they resolve the names of a service.
func (x *networkIndex) resolve(addresses GatewayAddresses) {
	names := map[string]bool{}
	for network, gateways := range x.gateways {
		var out []NetworkGateway
		for _, g := range gateways {
			if IsAddress(g.Address) {
				out = append(out, g)
				continue
			}
			names[g.Address] = true
			out = append(out, g.at(addresses[g.Address])...)
		}
		x.gateways[network] = out
	}
	x.names = slices.Sorted(maps.Keys(names))
}

// at is the gateway at each of these addresses, or as it is if there are none.
func (g NetworkGateway) at(addresses []string) []NetworkGateway {
	if len(addresses) == 0 {
		return []NetworkGateway{g}
	}
	out := make([]NetworkGateway, 0, len(addresses))
	for _, a := range addresses {
		out = append(out, NetworkGateway{Address: a, Port: g.Port, Unhealthy: g.Unhealthy})
	}
	return out
}

package mesh

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
)

// networkIndex describes a mesh of several networks that cannot reach each other.
type networkIndex struct {
	ranges     []networkRange    // the narrowest first
	registries map[string]string // the network of what a registry has, by its name
	// gateways has each network that is reached through gateways, also one that has none now.
	gateways  map[string][]NetworkGateway
	entrances map[NetworkGateway]bool // all of them, as if they were well
	names     []string                // of gateways that have no address, sorted
	scale     uint32
}

// oneNetwork is the index of a mesh in which everybody reaches everybody. It is never changed.
var oneNetwork = &networkIndex{scale: 1}

type networkRange struct {
	prefix  netip.Prefix
	network string
}

// buildNetworks keeps the index of prev as long as nothing in it changes. Gateways may be services,
// so a change of services may change it.
func buildNetworks(now configstore.Step, prev, m *Mesh, sameConfig bool) *networkIndex {
	services := m.services
	if prev.networks != nil && sameConfig && prev.services == services && prev.sameAddresses(m) && prev.unchanged(now, kindMeshNetworks) {
		return prev.networks
	}
	if len(services.crossings) == 0 && ofMesh(now.Snapshot, kindMeshNetworks) == nil {
		return oneNetwork
	}
	index := readNetworks(now.Snapshot, services, m.resolved)
	if prev.networks != nil && reflect.DeepEqual(index, prev.networks) {
		return prev.networks
	}
	return index
}

// readNetworks reads the MeshNetworks resource, and the labels of services that say which network
// they lead to.
func readNetworks(snapshot *configstore.Snapshot, services *serviceIndex, addresses GatewayAddresses) *networkIndex {
	index := &networkIndex{registries: map[string]string{}, gateways: map[string][]NetworkGateway{}, entrances: map[NetworkGateway]bool{}}
	networks := networksOf(snapshot)
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		index.add(name, networks[name], services)
	}
	for _, s := range services.crossings {
		index.addGateways(s.Entry.Labels[LabelNetwork], gatewaysOf(s, s.crossingPort()))
	}
	index.resolve(addresses)
	index.sort()
	return index
}

// networksOf are those of the MeshNetworks that counts, if there is one.
func networksOf(snapshot *configstore.Snapshot) map[string]*meshconfig.Network {
	r := ofMesh(snapshot, kindMeshNetworks)
	if r == nil {
		return nil
	}
	return specOf[*meshconfig.MeshNetworks](r).GetNetworks()
}

// add adds a network of the MeshNetworks, with its endpoints and its gateways. Of two networks that
// name a registry the first in the alphabet has it.
func (x *networkIndex) add(name string, network *meshconfig.Network, services *serviceIndex) {
	for _, e := range network.GetEndpoints() {
		if prefix, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
			x.ranges = append(x.ranges, networkRange{prefix.Masked(), name})
		}
		if registry := e.GetFromRegistry(); registry != "" && x.registries[registry] == "" {
			x.registries[registry] = name
		}
	}
	for _, g := range network.GetGateways() {
		gateways := gatewaysOf(services.gateway(g.GetRegistryServiceName()), g.GetPort())
		if address := g.GetAddress(); address != "" {
			gateways = append(gateways, NetworkGateway{Address: address, Port: g.GetPort()})
		}
		x.addGateways(name, gateways)
	}
}

// sort puts the index into the one form that it has for these networks.
func (x *networkIndex) sort() {
	counts := make([]int, 0, len(x.gateways))
	for name, gateways := range x.gateways {
		x.gateways[name] = distinct(gateways)
		counts = append(counts, len(x.gateways[name]))
		for _, g := range gateways {
			x.entrances[NetworkGateway{Address: g.Address, Port: g.Port}] = true
		}
	}
	x.scale = scaleOf(counts)
	slices.SortFunc(x.ranges, func(a, b networkRange) int {
		return cmp.Or(cmp.Compare(b.prefix.Bits(), a.prefix.Bits()), a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.network, b.network))
	})
}

// at returns the network that an address lies in, or "".
func (x *networkIndex) at(address string) string {
	if len(x.ranges) == 0 {
		return ""
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for _, r := range x.ranges {
		if r.prefix.Contains(ip.Unmap()) {
			return r.network
		}
	}
	return ""
}

// NetworkOf is the network of an endpoint: the one that its entry names, or that of its registry,
// or that in which its address lies.
func (m *Mesh) NetworkOf(e *Endpoint) string {
	if e.Network != "" {
		return e.Network
	}
	if len(m.networks.registries) > 0 {
		if network := m.networks.registries[e.entry.Origin()]; network != "" {
			return network
		}
	}
	return m.networks.at(e.Address)
}

// NetworkOfProxy is the network that the proxy names, or in which its address lies.
func (m *Mesh) NetworkOfProxy(p *Proxy) string {
	if p.Network != "" || len(p.Addresses) == 0 {
		return p.Network
	}
	return m.networks.at(p.Addresses[0])
}

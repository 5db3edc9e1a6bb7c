package mesh

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// NetworkGateway is an address at which other networks reach a network's endpoints.
type NetworkGateway struct {
	Address string // an IP address, or a name
	Port    uint32
}

// networkIndex describes a mesh of several networks that cannot reach each other.
type networkIndex struct {
	ranges   []networkRange // the narrowest first
	gateways map[string][]NetworkGateway
	scale    uint32
}

type networkRange struct {
	prefix  netip.Prefix
	network string
}

// buildNetworks keeps the index of prev as long as nothing in it changes. Gateways may be services,
// so a change of services may change it.
func buildNetworks(now configstore.Step, prev *Mesh, services *serviceIndex, sameConfig bool) *networkIndex {
	if prev.networks != nil && sameConfig && prev.services == services && prev.unchanged(now, kindMeshNetworks) {
		return prev.networks
	}
	index := readNetworks(now.Snapshot, services)
	if prev.networks != nil && reflect.DeepEqual(index, prev.networks) {
		return prev.networks
	}
	return index
}

// readNetworks reads the MeshNetworks resource.
func readNetworks(snapshot *configstore.Snapshot, services *serviceIndex) *networkIndex {
	index := &networkIndex{gateways: map[string][]NetworkGateway{}, scale: 1}
	if r := ofMesh(snapshot, kindMeshNetworks); r != nil {
		for name, network := range specOf[*meshconfig.MeshNetworks](r).GetNetworks() {
			index.add(name, network, services)
		}
	}
	for _, gateways := range index.gateways {
		index.scale = leastCommonMultiple(index.scale, uint32(len(gateways)))
	}
	slices.SortFunc(index.ranges, func(a, b networkRange) int {
		return cmp.Or(cmp.Compare(b.prefix.Bits(), a.prefix.Bits()), a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.network, b.network))
	})
	return index
}

// add adds a network of the MeshNetworks, with its address ranges and its gateways.
func (x *networkIndex) add(name string, network *meshconfig.Network, services *serviceIndex) {
	for _, e := range network.GetEndpoints() {
		if prefix, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
			x.ranges = append(x.ranges, networkRange{prefix.Masked(), name})
		}
	}
	all := map[NetworkGateway]bool{}
	for _, g := range network.GetGateways() {
		if address := g.GetAddress(); address != "" {
			all[NetworkGateway{address, g.GetPort()}] = true
		}
		for _, gateway := range gatewaysOfService(services, g.GetRegistryServiceName(), g.GetPort()) {
			all[gateway] = true
		}
	}
	if len(all) == 0 {
		return
	}
	x.gateways[name] = slices.SortedFunc(maps.Keys(all), NetworkGateway.Compare)
}

// Compare orders gateways.
func (g NetworkGateway) Compare(other NetworkGateway) int {
	return cmp.Or(cmp.Compare(g.Address, other.Address), cmp.Compare(g.Port, other.Port))
}

// gatewaysOfService are the endpoints of a named service: by its port, or at that port if it has no
// such port.
func gatewaysOfService(services *serviceIndex, host string, number uint32) []NetworkGateway {
	service := services.gateway(host)
	if service == nil {
		return nil
	}
	var out []NetworkGateway
	port := service.Port(number)
	for _, e := range service.Endpoints {
		switch {
		case e.Unix || e.Address == "":
		case port == nil:
			out = append(out, NetworkGateway{e.Address, number})
		case e.PortNumber == number:
			out = append(out, NetworkGateway{e.Address, e.Port})
		}
	}
	return out
}

// gateway returns the service of a name that stands for a network's gateways; nil if there is none.
func (x *serviceIndex) gateway(host string) *Service {
	named := x.byHost.get(strings.ToLower(host))
	if host == "" || len(named) == 0 {
		return nil
	}
	return gatewayService(named)
}

// gatewayService chooses, of several services with one name, the one that stands for a network's
// gateways. It prefers the namespace that has the MeshNetworks, then the one in the name
// (gateway.istio-system.svc.cluster.local). It does not take the oldest: any namespace could be
// first, and would get what is sent to the network.
func gatewayService(named []*Service) *Service {
	told := ""
	if parts := strings.Split(named[0].Hostname, "."); len(parts) > 2 && parts[2] == "svc" {
		told = parts[1]
	}
	for _, namespace := range []string{kinds.MeshNamespace, told} {
		if i := slices.IndexFunc(named, func(s *Service) bool { return s.Namespace == namespace }); i >= 0 {
			return named[i]
		}
	}
	return named[0]
}

func leastCommonMultiple(a, b uint32) uint32 {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
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

// HasNetworkGateways reports whether some endpoints are reached through gateways.
func (m *Mesh) HasNetworkGateways() bool { return len(m.networks.gateways) > 0 }

// NetworkGateways returns those of a network, in a fixed order. The slice must not be changed.
func (m *Mesh) NetworkGateways(network string) []NetworkGateway { return m.networks.gateways[network] }

// NetworkScale is a multiple of the number of gateways of every network, by which the weight of an
// endpoint can be spread over them.
func (m *Mesh) NetworkScale() uint32 { return m.networks.scale }

// NetworkOf is the network of an endpoint: the one that its entry names, or in which its address
// lies.
func (m *Mesh) NetworkOf(e *Endpoint) string {
	if e.Network != "" {
		return e.Network
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

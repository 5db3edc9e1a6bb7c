package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// NetworkGateway is an address at which other networks reach a network's endpoints.
type NetworkGateway struct {
	Address string // an IP address, or a name
	Port    uint32
	// Unhealthy tells that the machine there is known to be unwell.
	Unhealthy bool
}

// Compare orders gateways. Of two at one address the healthy comes first.
func (g NetworkGateway) Compare(other NetworkGateway) int {
	c := cmp.Or(cmp.Compare(g.Address, other.Address), cmp.Compare(g.Port, other.Port))
	switch {
	case c != 0 || g.Unhealthy == other.Unhealthy:
		return c
	case g.Unhealthy:
		return 1
	default:
		return -1
	}
}

// distinct sorts gateways, and leaves each in once: it is well if one of those that name it says so.
func distinct(gateways []NetworkGateway) []NetworkGateway {
	slices.SortFunc(gateways, NetworkGateway.Compare)
	return slices.CompactFunc(gateways, func(a, b NetworkGateway) bool { return a.Address == b.Address && a.Port == b.Port })
}

// addGateways adds gateways of a network. It is reached through gateways from now on, even if there
// are none: what is behind a gateway that is lost is not there for others, and its addresses may be
// somebody else's.
func (x *networkIndex) addGateways(network string, gateways []NetworkGateway) {
	x.gateways[network] = append(x.gateways[network], gateways...)
}

// gatewaysOf are the endpoints of a service: by its port, or at that port if it has no such port.
// There are none without a service.
func gatewaysOf(service *Service, number uint32) []NetworkGateway {
	if service == nil {
		return nil
	}
	var out []NetworkGateway
	port := service.Port(number)
	for _, e := range service.Endpoints {
		g := NetworkGateway{Address: e.Address, Port: number, Unhealthy: e.Unhealthy}
		if port != nil {
			g.Port = e.Port
		}
		if !e.Unix && !e.Revoked && !e.Draining && e.Address != "" && !e.Datagrams && (port == nil || e.PortNumber == number) {
			out = append(out, g)
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

// labelGatewayPort says at which of its ports a service leads to its network.
const labelGatewayPort = "networking.istio.io/gatewayPort"

// crossingPort is the port at which a service with the label of a network leads there.
func (s *Service) crossingPort() uint32 {
	if port, err := strconv.ParseUint(s.Entry.Labels[labelGatewayPort], 10, 16); err == nil {
		return uint32(port)
	}
	return 15443
}

// isCrossing reports whether a service leads to the network that its label names. Only those in the
// namespace of the MeshNetworks do: who may write there decides where traffic to networks goes.
func (s *Service) isCrossing() bool {
	return s.Namespace == kinds.MeshNamespace && s.Entry.Labels[LabelNetwork] != "" && s.Port(s.crossingPort()) != nil
}

// crossingProblems says why a service with the label of a network does not lead there.
func (s *Service) crossingProblems() []Problem {
	network := s.Entry.Labels[LabelNetwork]
	if network == "" {
		return nil
	}
	told := func(format string, args ...any) []Problem {
		return []Problem{{Of: s.Entry.Key(), Path: "metadata.labels", Reason: fmt.Sprintf(format, args...)}}
	}
	port, written := s.crossingPort(), s.Entry.Labels[labelGatewayPort]
	switch {
	case s.Namespace != kinds.MeshNamespace && s.Port(port) != nil:
		return told("does not lead to the network %s: the label %s makes gateways of services in the namespace %q alone. Move it there, or remove the label",
			network, LabelNetwork, kinds.MeshNamespace)
	case s.Namespace != kinds.MeshNamespace:
		return nil // the label says where it is
	case written != "" && strconv.FormatUint(uint64(port), 10) != written:
		return told("%s: %q is no port, and %d counts. Write the number of one of its ports", labelGatewayPort, written, port)
	case s.Port(port) == nil:
		return told("does not lead to the network %s: it has no port %d. Give it one, or name another in the label %s", network, port, labelGatewayPort)
	}
	return nil
}

// largestScale bounds by what weights are multiplied.
const largestScale = 1 << 16

// scaleOf is a multiple of numbers of gateways, or, if that would be too large, large enough that
// shares of a weight are almost equal.
func scaleOf(counts []int) uint32 {
	scale := 1
	for _, n := range counts {
		if n > 0 {
			scale = min(leastCommonMultiple(scale, n), largestScale)
		}
		if scale == largestScale {
			break
		}
	}
	return uint32(scale)
}

func leastCommonMultiple(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// HasNetworkGateways reports whether some endpoints are reached through gateways.
func (m *Mesh) HasNetworkGateways() bool { return len(m.networks.gateways) > 0 }

// BehindGateways reports whether others reach a network through gateways alone.
func (m *Mesh) BehindGateways(network string) bool {
	_, found := m.networks.gateways[network]
	return found
}

// NetworkGateways returns those of a network, in a fixed order. The slice must not be changed.
func (m *Mesh) NetworkGateways(network string) []NetworkGateway { return m.networks.gateways[network] }

// IsNetworkGateway reports whether other networks reach some network at this address and port.
func (m *Mesh) IsNetworkGateway(address string, port uint32) bool {
	return m.networks.entrances[NetworkGateway{Address: address, Port: port}]
}

// NetworkScale is a multiple of the number of gateways of every network, by which the weight of an
// endpoint can be spread over them.
func (m *Mesh) NetworkScale() uint32 { return m.networks.scale }

// networkProblems says what of the MeshNetworks has no effect.
func (m *Mesh) networkProblems() (out []Problem) {
	r := ofMesh(m.from, kindMeshNetworks)
	if r == nil || len(m.networks.registries) == 0 && len(m.networks.gateways) == 0 {
		return nil
	}
	networks := networksOf(m.from)
	for _, name := range sortedNames(networks) {
		told := func(format string, args ...any) {
			out = append(out, Problem{Of: r.Key(), Path: "spec.networks." + name, Reason: fmt.Sprintf(format, args...)})
		}
		for _, e := range networks[name].GetEndpoints() {
			if other := m.networks.registries[e.GetFromRegistry()]; other != "" && other != name {
				told("what the registry %s has is in the network %s, which names it, too. Remove it from one of the two", e.GetFromRegistry(), other)
			}
		}
		for _, g := range networks[name].GetGateways() {
			if host := g.GetRegistryServiceName(); host != "" && m.services.gateway(host) == nil {
				told("no service has the host %s: nothing is reached through it. Correct registryServiceName, or write that ServiceEntry", host)
			}
		}
	}
	return out
}

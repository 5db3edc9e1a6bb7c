package mesh

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/places"
)

// Reach says how near to a proxy the endpoints of a service may be. What is on its loopback
// interface, and what only its own machine is told, differs from machine to machine: Envoy's admin
// API, the agent's pages, the credentials that a cloud gives the machine. A service of another
// namespace must not lead there.
type Reach int

// The reaches. If others know the proxy by a loopback address, the whole mesh is on one machine,
// and so are its services.
const (
	ReachAll Reach = iota
	ReachLoopback
	ReachNetwork
)

// ReachOf returns how near to a proxy the endpoints of a service may be. Those of the proxy's own
// namespace, and of the root namespace, may be anywhere.
func (m *Mesh) ReachOf(p *Proxy, s *Service) Reach {
	switch {
	case !s.Local || s.Namespace == p.Namespace || s.Namespace == m.Config.GetRootNamespace():
		return ReachAll
	case p.onLoopback():
		return ReachLoopback
	default:
		return ReachNetwork
	}
}

// Excludes reports whether an endpoint is too near.
func (r Reach) Excludes(e *Endpoint) bool {
	return r == ReachNetwork && e.near != elsewhere || r == ReachLoopback && e.near == onMachine
}

func (p *Proxy) onLoopback() bool { return nearnessOf(p.Addresses[0]) == onLoopback }

// nearness says where an address leads.
type nearness uint8

const (
	elsewhere  nearness = iota // to the same place from every machine
	onLoopback                 // to the machine that connects
	onMachine                  // to what only the machine itself is told: sockets, its link, its cloud
)

// nearnessOf judges an address, or a name that means the same on all machines.
func nearnessOf(address string) nearness {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nearnessOfName(address)
	}
	switch ip = places.Plain(ip); {
	case ip.IsLoopback(), ip.IsUnspecified():
		return onLoopback
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), places.IsMetadata(ip):
		return onMachine
	default:
		return elsewhere
	}
}

// nearnessOfName judges a host name. The machine itself has some names, and its cloud others; and
// some resolvers read a name that ends in a number as an address.
func nearnessOfName(name string) nearness {
	name = strings.ToLower(strings.TrimRight(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case last == "localhost", last == "localdomain", name == "ip6-localhost", name == "ip6-loopback":
		return onLoopback
	case name == "metadata", strings.HasPrefix(name, "metadata.") && last == "internal", name == "instance-data", strings.HasPrefix(name, "instance-data."):
		return onMachine
	case last != "" && last[0] >= '0' && last[0] <= '9': // some read it as an address: 127.1, 0x7f000001
		return onMachine
	default:
		return elsewhere
	}
}

// local reports whether some proxies may not be sent to some endpoints of the service. If each
// request names its host, that may be any of them.
func (s *Service) local() bool {
	return s.Resolution == ResolutionDynamicDNS || slices.ContainsFunc(s.Endpoints, func(e *Endpoint) bool { return e.near != elsewhere })
}

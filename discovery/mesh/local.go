package mesh

import (
	"net/netip"
	"slices"
	"strings"
)

// Reach is how near to a proxy the endpoints of a service may be. What is on its loopback interface, and what only its own machine is told of,
// is somebody else's on each machine: Envoy's admin API, the agent's pages, the credentials that a cloud gives the machine. A service of
// another namespace does not lead there.
type Reach int

// The reaches. Where the proxy is known to others by an address of loopback, the mesh is one machine, and so are its services.
const (
	ReachAll Reach = iota
	ReachLoopback
	ReachNetwork
)

// ReachOf is how near to a proxy the endpoints of a service may be: of its own namespace, and of the root namespace, anywhere.
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

// nearness is where an address leads from every machine.
type nearness uint8

const (
	elsewhere  nearness = iota // to one place, whoever connects
	onLoopback                 // to whoever connects
	onMachine                  // to what is told to the machine alone: sockets, its link, its cloud
)

// clouds are where clouds tell machines who they are, beside 169.254.169.254, which is on the link.
var clouds = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// nearnessOf looks at an address, or at a name that means the same on all machines.
func nearnessOf(address string) nearness {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nearnessOfName(address)
	}
	switch ip = ip.Unmap().WithZone(""); {
	case ip.IsLoopback(), ip.IsUnspecified():
		return onLoopback
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), slices.Contains(clouds, ip):
		return onMachine
	default:
		return elsewhere
	}
}

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

// local reports whether some proxies are not to be led where the service leads. Where each request names its host, that may be anywhere.
func (s *Service) local() bool {
	return s.Resolution == ResolutionDynamicDNS || slices.ContainsFunc(s.Endpoints, func(e *Endpoint) bool { return e.near != elsewhere })
}

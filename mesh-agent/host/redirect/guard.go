package redirect

import (
	"fmt"
	"net/netip"
	"slices"
)

// Environment is what the machine depends on, as found a moment ago.
type Environment struct {
	SSH         Ports // ports for logging in to this machine
	Discovery   []netip.AddrPort
	Nameservers []netip.Addr
	Addresses   []netip.Addr // this machine's
	Agent       Ports        // ports of Envoy and its agent
	// Resolver4 and Resolver6 report whether the agent's resolver listens at 127.0.0.1 and at ::1.
	Resolver4, Resolver6 bool
}

// metadata lists the addresses of cloud metadata services, some of whose answers are secret: AWS,
// Google, Azure and OpenStack, AWS over IPv6, AWS for containers and its clock, Azure's agent,
// Alibaba.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("169.254.170.2/32"), netip.MustParsePrefix("169.254.169.123/32"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("100.100.100.200/32"),
}

// ntsKeyExchange is the port where clocks get keys (NTS). NTP and DHCP use UDP, which is not
// redirected.
const ntsKeyExchange = 4460

// redirectable returns the nameservers whose queries the agent's resolver can take.
func (s Environment) redirectable() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.Nameservers), func(a netip.Addr) bool {
		return a.Unmap().Is4() && !s.Resolver4 || a.Unmap().Is6() && !s.Resolver6
	})
}

// guards returns what is never redirected. Envoy's and the agent's own ports are always guarded, as
// redirecting those would be a loop.
func (s Environment) guards(unguarded bool) []Guard {
	out := []Guard{{Why: "Envoy's and its agent's own ports", In: true, Ports: s.Agent}}
	if unguarded {
		return out
	}
	out = append(out, Guard{Why: "SSH: people get on this machine by it", In: true, Out: true, Ports: s.SSH})
	for _, at := range s.Discovery {
		// Outbound connections to a discovery on this machine need no guard: traffic within the
		// machine is not redirected.
		out = append(out, Guard{
			Why: "discovery", Out: true, In: slices.Contains(s.Addresses, at.Addr()), Ports: PortsOf(at.Port()), To: []netip.Prefix{hostPrefix(at.Addr())},
		})
	}
	var servers []netip.Prefix
	for _, a := range s.Nameservers {
		servers = append(servers, hostPrefix(a))
	}
	if len(servers) > 0 {
		out = append(out, Guard{Why: "this machine's nameservers", Out: true, Ports: PortsOf(53), To: disjoint(servers)})
	}
	return append(out,
		Guard{Why: "the clock's keys", Out: true, Ports: PortsOf(ntsKeyExchange)},
		Guard{Why: "the cloud's metadata", Out: true, To: metadata})
}

// checkGuards returns an error if guarded ports were chosen explicitly. A choice of all ports
// leaves them out silently.
func (p Plan) checkGuards() error {
	for _, g := range p.Guards {
		if !p.Outbound.Ports.isAll() && g.Out && len(g.To) == 0 {
			if ports := p.Outbound.Ports.And(g.Ports); len(ports) > 0 {
				return guardError("outbound", ports, g)
			}
		}
		if !p.Inbound.Ports.isAll() && g.In {
			if ports := p.Inbound.Ports.And(g.Ports); len(ports) > 0 {
				return guardError("inbound", ports, g)
			}
		}
	}
	return nil
}

func guardError(which string, ports Ports, g Guard) error {
	return fmt.Errorf("port %s is not redirected (%s): leave it out of --redirect-%s-ports; --redirect-unguarded redirects what is guarded, "+
		"but never Envoy's and the agent's own ports", ports, g.Why, which)
}

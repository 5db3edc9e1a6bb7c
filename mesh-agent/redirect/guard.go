package redirect

import (
	"fmt"
	"net/netip"
	"slices"
)

// Surroundings are what the machine depends on, as found a moment ago.
type Surroundings struct {
	SSH         Ports // that people are, or may get, on this machine by
	Discovery   []netip.AddrPort
	Nameservers []netip.Addr
	Addresses   []netip.Addr // of this machine
	Agent       Ports        // that Envoy and its agent listen on themselves
	// Resolver4 and Resolver6 tell whether the agent's resolver listens at 127.0.0.1 and ::1.
	Resolver4, Resolver6 bool
}

// metadata are where clouds tell their machines who they are, some of it secret: AWS, Google, Azure and OpenStack alike, AWS over IPv6, AWS for
// containers and its clock, Azure's agent, Alibaba.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("169.254.170.2/32"), netip.MustParsePrefix("169.254.169.123/32"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("100.100.100.200/32"),
}

// ntsKeyExchange is the port where clocks get their keys from. Time itself, and DHCP, come by UDP, which is never redirected.
const ntsKeyExchange = 4460

// redirectable are the nameservers whose questions the agent's resolver can take.
func (s Surroundings) redirectable() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.Nameservers), func(a netip.Addr) bool {
		return a.Unmap().Is4() && !s.Resolver4 || a.Unmap().Is6() && !s.Resolver6
	})
}

// guards are what is never redirected. Envoy's and the agent's own ports are so even when people want no guards: that would be a loop.
func (s Surroundings) guards(unguarded bool) []Guard {
	out := []Guard{{Why: "Envoy's and its agent's own ports", In: true, Ports: s.Agent}}
	if unguarded {
		return out
	}
	out = append(out, Guard{Why: "SSH: people get on this machine by it", In: true, Out: true, Ports: s.SSH})
	for _, at := range s.Discovery {
		// Outside a discovery on this machine need not be guarded: nothing that stays here is redirected.
		out = append(out, Guard{
			Why: "discovery", Out: true, In: slices.Contains(s.Addresses, at.Addr()), Ports: PortsOf(at.Port()), To: []netip.Prefix{single(at.Addr())},
		})
	}
	var servers []netip.Prefix
	for _, a := range s.Nameservers {
		servers = append(servers, single(a))
	}
	if len(servers) > 0 {
		out = append(out, Guard{Why: "this machine's nameservers", Out: true, Ports: PortsOf(53), To: distinct(servers)})
	}
	return append(out,
		Guard{Why: "the clock's keys", Out: true, Ports: PortsOf(ntsKeyExchange)},
		Guard{Why: "the cloud's metadata", Out: true, To: metadata})
}

// checkGuards refuses to redirect what is guarded and was chosen by name. To redirect everything leaves it out without a word.
func (p Plan) checkGuards() error {
	for _, g := range p.Guards {
		if !p.Outbound.Ports.whole() && g.Out && len(g.To) == 0 {
			if ports := p.Outbound.Ports.And(g.Ports); len(ports) > 0 {
				return guardError("outbound", ports, g)
			}
		}
		if !p.Inbound.Ports.whole() && g.In {
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

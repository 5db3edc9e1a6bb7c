package redirect

import (
	"net/netip"

	"github.com/pgmesh/pgmesh/mesh-agent/host/ownmark"
)

// rule says what happens to matching packets. The first matching rule of a chain decides.
type rule struct {
	match

	verdict verdict
	why     string
}

// match matches packets that fit all fields. Of a list one element has to fit; an empty field fits
// everything.
type match struct {
	protocols     []string // tcp, udp
	ports         Ports    // destination
	from, to      []netip.Prefix
	in, out       []string // interfaces
	users, groups []Account
	mark          uint32 // the packet's
	connMark      uint32 // the connection's
	local         bool   // for this machine, not forwarded
	unconfirmed   bool   // the confirmation has timed out
}

// verdict is what happens to a packet.
type verdict int

const (
	pass verdict = iota
	toOutbound
	toInbound
	toInboundTransparent // TPROXY
	toDNS
	markConnection // copies the packet's mark to the connection
	markPacket     // copies the connection's mark to the packet
)

// chain is the rules at one hook.
type chain struct {
	hook  hook
	rules []rule
}

// hook is a place in the kernel's packet processing.
type hook struct {
	table    string // iptables' table
	name     string // nft's name; in capitals, iptables'
	kind     string // nft's chain type
	priority int    // nft's priority: before the usual ones, which Docker uses
}

// The hooks in use.
var (
	natOutput      = hook{"nat", "output", "nat", -105}
	natPrerouting  = hook{"nat", "prerouting", "nat", -105}
	markOutput     = hook{"mangle", "output", "route", -155}
	markPrerouting = hook{"mangle", "prerouting", "filter", -155}
)

const lo = "lo"

var (
	tcp       = []string{"tcp"}
	tcpAndUDP = []string{"tcp", "udp"}

	// envoySource are the addresses that Envoy connects to the machine's own programs from.
	// Discovery configures them.
	envoySource = []netip.Prefix{netip.MustParsePrefix("127.0.0.6/32"), netip.MustParsePrefix("::6/128")}
	loopback    = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
)

// envoyMark is the mark of connections that Envoy makes with its clients' addresses. Discovery
// configures it.
const envoyMark = 1337

// passUnconfirmed ends a chain while the rules are not confirmed.
var passUnconfirmed = rule{match{unconfirmed: true}, pass, "the agent and Envoy have not been confirmed healthy in time"}

// chains returns the plan's chains.
func (p Plan) chains() []chain {
	out := []chain{{natOutput, p.output()}}
	if len(p.Inbound.Ports) == 0 {
		return out
	}
	if p.Mode != TProxy {
		return append(out, chain{natPrerouting, p.inbound(toInbound)})
	}
	return append(out, chain{markPrerouting, p.transparent()}, chain{markOutput, []rule{markReplies}})
}

// output handles what the machine's programs send.
func (p Plan) output() []rule {
	out := []rule{
		passUnconfirmed,
		{match{protocols: tcp, from: envoySource, out: []string{lo}}, pass, "Envoy hands connections over to this machine's programs"},
	}
	out = append(out, p.ownRules()...)
	out = append(out, p.exceptBySender()...)
	out = append(out, p.dns()...)
	out = append(out,
		rule{match{out: []string{lo}}, pass, "stays on this machine"},
		rule{match{to: loopback}, pass, "stays on this machine"})
	for _, g := range p.Guards {
		if g.Out {
			out = append(out, rule{match{protocols: tcp, ports: g.Ports, to: g.To}, pass, g.Why})
		}
	}
	o := p.Outbound
	if len(o.ExceptPorts) > 0 {
		out = append(out, rule{match{protocols: tcp, ports: o.ExceptPorts}, pass, "these ports are excepted"})
	}
	if len(o.ExceptTo) > 0 {
		out = append(out, rule{match{to: o.ExceptTo}, pass, "these addresses are excepted"})
	}
	if len(o.Ports) == 0 {
		return out
	}
	return append(out, rule{
		match{protocols: tcp, ports: o.Ports, to: o.To, out: o.Interfaces, users: o.Users, groups: o.Groups},
		toOutbound, "what goes out is Envoy's to send",
	})
}

// ownRules keeps the connections of Envoy and the agent from being redirected to Envoy. But when
// Envoy calls a service of this machine, the connection comes in as from another machine.
func (p Plan) ownRules() []rule {
	out := []rule{{match{mark: ownmark.Mark}, pass, "the agent's own"}}
	if p.Mode == TProxy {
		out = append(out, rule{match{mark: envoyMark}, pass, "Envoy hands connections over under its clients' addresses"})
	}
	for _, m := range p.Own.matches() {
		if ports := p.inboundPorts(); len(ports) > 0 {
			again, home := m, m
			home.to, home.out = loopback, []string{lo}
			again.protocols, again.ports, again.out = tcp, ports, []string{lo}
			out = append(out, rule{home, pass, "Envoy's own, on loopback"},
				rule{again, toInbound, "Envoy calls a service of this machine, which is to come in as from others"})
		}
		out = append(out, rule{m, pass, "Envoy's own"})
	}
	return out
}

func (o Own) matches() []match {
	var out []match
	if len(o.Users) > 0 {
		out = append(out, match{users: o.Users})
	}
	if len(o.Groups) > 0 {
		out = append(out, match{groups: o.Groups})
	}
	return out
}

// inboundPorts returns the ports whose connections are redirected inbound.
func (p Plan) inboundPorts() Ports {
	return p.withoutGuarded(p.Inbound.Ports.Without(p.Inbound.ExceptPorts))
}

// withoutGuarded removes ports that are guarded inbound.
func (p Plan) withoutGuarded(ports Ports) Ports {
	for _, g := range p.Guards {
		if g.In {
			ports = ports.Without(g.Ports)
		}
	}
	return ports
}

func (p Plan) exceptBySender() []rule {
	var out []rule
	o := p.Outbound
	if len(o.ExceptUsers) > 0 {
		out = append(out, rule{match{users: o.ExceptUsers}, pass, "these users are excepted"})
	}
	if len(o.ExceptGroups) > 0 {
		out = append(out, rule{match{groups: o.ExceptGroups}, pass, "these groups are excepted"})
	}
	if len(o.ExceptInterfaces) > 0 {
		out = append(out, rule{match{out: o.ExceptInterfaces}, pass, "these interfaces are excepted"})
	}
	return out
}

// dns redirects queries to the machine's nameservers only. Others stay, because a nameserver may
// run on this machine and has to query further.
func (p Plan) dns() []rule {
	if len(p.Nameservers) == 0 {
		return nil
	}
	var servers []netip.Prefix
	for _, a := range p.Nameservers {
		servers = append(servers, hostPrefix(a))
	}
	return []rule{{
		match{protocols: tcpAndUDP, ports: PortsOf(53), to: disjoint(servers), users: p.Outbound.Users, groups: p.Outbound.Groups},
		toDNS, "questions to this machine's nameservers are the agent's to answer",
	}}
}

// inbound handles what others send to the machine.
func (p Plan) inbound(verdict verdict) []rule {
	in := p.Inbound
	out := []rule{passUnconfirmed}
	if len(in.ExceptInterfaces) > 0 {
		out = append(out, rule{match{in: in.ExceptInterfaces}, pass, "these interfaces are excepted"})
	}
	for _, g := range p.Guards {
		if g.In {
			out = append(out, rule{match{protocols: tcp, ports: g.Ports}, pass, g.Why})
		}
	}
	if len(in.ExceptPorts) > 0 {
		out = append(out, rule{match{protocols: tcp, ports: in.ExceptPorts}, pass, "these ports are excepted"})
	}
	if len(in.ExceptFrom) > 0 {
		out = append(out, rule{match{from: in.ExceptFrom}, pass, "these senders are excepted"})
	}
	return append(out, rule{
		match{protocols: tcp, ports: in.Ports, from: in.From, in: in.Interfaces, local: true},
		verdict, "what comes in is Envoy's to receive",
	})
}

// transparent is inbound for TPROXY. Envoy connects to applications with its clients' addresses,
// and the replies have to find back to Envoy, so these connections are marked.
func (p Plan) transparent() []rule {
	out := []rule{
		{match{protocols: tcp, in: []string{lo}, mark: envoyMark}, markConnection, "Envoy connects under its client's address: remembered for the answers"},
		{match{in: []string{lo}}, pass, "stays on this machine"},
	}
	return append(out, p.inbound(toInboundTransparent)...)
}

// markReplies works without confirmation too, so that open connections continue.
var markReplies = rule{match{protocols: tcp, connMark: envoyMark}, markPacket, "an answer to Envoy under its client's address: routed back to it"}

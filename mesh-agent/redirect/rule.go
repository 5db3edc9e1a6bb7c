package redirect

import (
	"net/netip"

	"github.com/pgmesh/pgmesh/mesh-agent/ownmark"
)

// rule says what becomes of packets that fit. The first of a chain that fits counts.
type rule struct {
	match

	verdict verdict
	why     string
}

// match fits packets that all of it fits. Of each list one has to; an empty one fits all.
type match struct {
	protocols     []string // tcp, udp
	ports         Ports    // that they go to
	from, to      []netip.Prefix
	in, out       []string // interfaces
	users, groups []Account
	mark          uint32 // of the packet
	connMark      uint32 // of the connection
	local         bool   // for the machine itself, not passed on to others
	unconfirmed   bool   // nobody has confirmed the rules in time
}

// verdict is what becomes of a packet.
type verdict int

const (
	pass verdict = iota
	toOutbound
	toInbound
	toInboundAsIs // TPROXY
	toDNS
	markConnection // with the packet's mark
	markPacket     // with the connection's mark
)

// chain is rules for the packets that pass one place of the kernel.
type chain struct {
	hook  hook
	rules []rule
}

// hook is a place in the kernel.
type hook struct {
	table    string // of iptables
	name     string // in nft; in capitals, of iptables
	kind     string // of nft
	priority int    // of nft: before those who take the usual one, as Docker does
}

// The places in the kernel. Other hooks of the same kind count after ours.
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

	// envoySource are the addresses that Envoy hands connections to the machine's own programs from; discovery tells it so.
	envoySource = []netip.Prefix{netip.MustParsePrefix("127.0.0.6/32"), netip.MustParsePrefix("::6/128")}
	loopback    = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
)

// envoyMark is on the packets of connections that Envoy makes under its clients' addresses; discovery tells it so.
const envoyMark = 1337

// unconfirmed ends a chain while nobody confirms that it does good.
var unconfirmed = rule{match{unconfirmed: true}, pass, "the agent and Envoy have not been confirmed healthy in time"}

// chains are all that the plan is made of.
func (p Plan) chains() []chain {
	out := []chain{{natOutput, p.output()}}
	if len(p.Inbound.Ports) == 0 {
		return out
	}
	if p.Mode != TProxy {
		return append(out, chain{natPrerouting, p.inbound(toInbound)})
	}
	return append(out, chain{markPrerouting, p.transparent()}, chain{markOutput, []rule{answersToEnvoy}})
}

// output is for what the machine's own programs send.
func (p Plan) output() []rule {
	out := []rule{
		unconfirmed,
		{match{protocols: tcp, from: envoySource, out: []string{lo}}, pass, "Envoy hands connections over to this machine's programs"},
	}
	out = append(out, p.own()...)
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

// own keeps Envoy and its agent from being sent to themselves. What Envoy sends to a service of this machine comes in like from another.
func (p Plan) own() []rule {
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

// inboundPorts are those that connections of other machines come in by.
func (p Plan) inboundPorts() Ports {
	return p.unguarded(p.Inbound.Ports.Without(p.Inbound.ExceptPorts))
}

// unguarded are those of the ports that may come in by Envoy.
func (p Plan) unguarded(ports Ports) Ports {
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

// dns is for questions to the nameservers of the machine, and no others: one of them may itself run on this machine, and ask further.
func (p Plan) dns() []rule {
	if len(p.Nameservers) == 0 {
		return nil
	}
	var servers []netip.Prefix
	for _, a := range p.Nameservers {
		servers = append(servers, single(a))
	}
	return []rule{{
		match{protocols: tcpAndUDP, ports: PortsOf(53), to: distinct(servers), users: p.Outbound.Users, groups: p.Outbound.Groups},
		toDNS, "questions to this machine's nameservers are the agent's to answer",
	}}
}

// inbound is for what others send to the machine.
func (p Plan) inbound(verdict verdict) []rule {
	in := p.Inbound
	out := []rule{unconfirmed}
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

// transparent is inbound with the packets left as they are. Envoy then connects to the application under its client's address, and what the
// application answers has to find back to Envoy: such connections are marked.
func (p Plan) transparent() []rule {
	out := []rule{
		{match{protocols: tcp, in: []string{lo}, mark: envoyMark}, markConnection, "Envoy connects under its client's address: remembered for the answers"},
		{match{in: []string{lo}}, pass, "stays on this machine"},
	}
	return append(out, p.inbound(toInboundAsIs)...)
}

// answersToEnvoy counts also while the rules are not confirmed: connections that there are go on.
var answersToEnvoy = rule{match{protocols: tcp, connMark: envoyMark}, markPacket, "an answer to Envoy under its client's address: routed back to it"}

package redirect

import (
	"fmt"
	"net/netip"
	"strings"
)

// describe states a rule in a sentence.
func (p Plan) describe(r rule) string {
	return fmt.Sprintf("%s %s: %s", r.match, p.effect(r.verdict), r.why)
}

// summary says briefly what is redirected.
func (p Plan) summary() string {
	ports := func(ports Ports) string {
		switch {
		case len(ports) == 0:
			return "nothing"
		case ports.isAll():
			return "all ports"
		}
		return "ports " + ports.String()
	}
	words := fmt.Sprintf("outbound %s, inbound %s (%s)", ports(p.Outbound.Ports), ports(p.Inbound.Ports), p.Mode)
	if len(p.Nameservers) > 0 {
		words += ", DNS"
	}
	if len(p.families()) == 1 {
		words += fmt.Sprintf(", IPv%d only", p.families()[0])
	}
	return words
}

func (p Plan) effect(v verdict) string {
	switch v {
	case toOutbound:
		return fmt.Sprintf("goes to Envoy's port %d", p.OutboundTo)
	case toInbound:
		return fmt.Sprintf("goes to Envoy's port %d", p.InboundTo)
	case toInboundTransparent:
		return fmt.Sprintf("goes to Envoy's port %d as it is", p.InboundTo)
	case toDNS:
		return fmt.Sprintf("goes to the agent's port %d", p.DNSTo)
	case markConnection:
		return "marks its connection"
	case markPacket:
		return "is marked"
	default:
		return "is left alone"
	}
}

func (m match) String() string {
	if m.unconfirmed {
		return "Everything while unconfirmed"
	}
	words := []string{what(m.protocols)}
	add := func(preposition string, list []string) {
		if len(list) > 0 {
			words = append(words, preposition, strings.Join(list, " or "))
		}
	}
	if len(m.ports) > 0 && !m.ports.isAll() {
		word := "to port"
		if len(m.ports) > 1 || m.ports[0].First != m.ports[0].Last {
			word = "to ports"
		}
		add(word, []string{m.ports.String()})
	}
	add("from", prefixWords(m.from))
	add("to", prefixWords(m.to))
	add("that comes in by", m.in)
	add("that goes out by", m.out)
	add("of user", accountWords(m.users))
	add("of group", accountWords(m.groups))
	if m.mark != 0 {
		add("with mark", []string{fmt.Sprint(m.mark)})
	}
	if m.connMark != 0 {
		add("of a connection with mark", []string{fmt.Sprint(m.connMark)})
	}
	if m.local {
		add("for", []string{"this machine"})
	}
	return strings.Join(words, " ")
}

func what(protocols []string) string {
	switch len(protocols) {
	case 0:
		return "Everything"
	case 1:
		return "TCP"
	default:
		return "TCP and UDP"
	}
}

func prefixWords(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, p := range prefixes {
		out[i] = prefixWord(p)
	}
	return out
}

func prefixWord(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func accountWords(accounts []Account) []string {
	out := make([]string, len(accounts))
	for i, a := range accounts {
		out[i] = a.String()
	}
	return out
}

func (a Account) String() string {
	if a.Name == "" {
		return fmt.Sprint(a.ID)
	}
	return fmt.Sprintf("%s (%d)", a.Name, a.ID)
}

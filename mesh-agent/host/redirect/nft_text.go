package redirect

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// confirmedSet has an element for each protocol while the rules are confirmed. The kernel removes
// elements when they time out.
const confirmedSet = "confirmed"

// NFT renders the plan as one nft transaction, which replaces the whole table atomically.
func (p Plan) NFT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s\ndelete table inet %[1]s\ntable inet %[1]s {\n", p.Table)
	fmt.Fprintf(&b, "\t# Nothing below counts unless this was confirmed within %s.\n", p.Timeout)
	fmt.Fprintf(&b, "\tset %s {\n\t\ttype inet_proto\n\t\tflags timeout\n\t\telements = { %s }\n\t}\n", confirmedSet, nftConfirmed(p.Timeout))
	for _, c := range p.chains() {
		fmt.Fprintf(&b, "\n\tchain %s_%s {\n\t\ttype %s hook %[2]s priority %[4]d; policy accept;\n",
			c.hook.table, c.hook.name, c.hook.kind, c.hook.priority)
		p.nftOtherFamily(&b)
		for _, r := range c.rules {
			lines := p.nftRules(r)
			if len(lines) == 0 {
				continue
			}
			fmt.Fprintf(&b, "\n\t\t# %s.\n", p.describe(r))
			for _, line := range lines {
				fmt.Fprintf(&b, "\t\t%s comment %q\n", line, r.why)
			}
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// nftConfirm flushes and refills the set in a transaction: adding an existing element would not
// extend its timeout.
func (p Plan) nftConfirm() string {
	return p.nftRelease() + fmt.Sprintf("add element inet %s %s { %s }\n", p.Table, confirmedSet, nftConfirmed(p.Timeout))
}

func (p Plan) nftRelease() string {
	return fmt.Sprintf("flush set inet %s %s\n", p.Table, confirmedSet)
}

func nftConfirmed(within time.Duration) string {
	return fmt.Sprintf("tcp timeout %[1]dms, udp timeout %[1]dms", within.Milliseconds())
}

// nftOtherFamily skips a family that Envoy does not listen for.
func (p Plan) nftOtherFamily(b *strings.Builder) {
	switch {
	case !p.IPv6:
		b.WriteString("\t\tmeta nfproto ipv6 return\n")
	case !p.IPv4:
		b.WriteString("\t\tmeta nfproto ipv4 return\n")
	}
}

// nftRules returns one line for both families, or one for each if addresses matter.
func (p Plan) nftRules(r rule) []string {
	if len(r.from) == 0 && len(r.to) == 0 {
		return []string{p.nftRule(r, nil)}
	}
	var out []string
	for _, f := range p.families() {
		from, to := f.filter(r.from), f.filter(r.to)
		if len(r.from) > 0 && len(from) == 0 || len(r.to) > 0 && len(to) == 0 {
			continue
		}
		out = append(out, p.nftRule(r, append(f.nftAddresses("saddr", from), f.nftAddresses("daddr", to)...)))
	}
	return out
}

func (f family) nftAddresses(which string, prefixes []netip.Prefix) []string {
	if len(prefixes) == 0 {
		return nil
	}
	if prefixes[0].Bits() == 0 { // matches the whole family
		return []string{fmt.Sprintf("meta nfproto ipv%d", f)}
	}
	word := map[family]string{ipv4: "ip", ipv6: "ip6"}[f]
	return []string{word + " " + which + " " + oneOf(prefixWords(prefixes))}
}

func (p Plan) nftRule(r rule, addresses []string) string {
	var words []string
	if r.unconfirmed {
		words = append(words, "meta l4proto != @"+confirmedSet)
	}
	if len(r.in) > 0 {
		words = append(words, "iifname "+oneOf(quoted(r.in)))
	}
	if len(r.out) > 0 {
		words = append(words, "oifname "+oneOf(quoted(r.out)))
	}
	if len(r.protocols) > 0 {
		words = append(words, "meta l4proto "+oneOf(r.protocols))
	}
	if len(r.ports) > 0 && !r.ports.isAll() {
		words = append(words, "th dport "+oneOf(nftPorts(r.ports)))
	}
	words = append(words, addresses...)
	if len(r.users) > 0 {
		words = append(words, "meta skuid "+oneOf(ids(r.users)))
	}
	if len(r.groups) > 0 {
		words = append(words, "meta skgid "+oneOf(ids(r.groups)))
	}
	if r.mark != 0 {
		words = append(words, fmt.Sprintf("meta mark %d", r.mark))
	}
	if r.connMark != 0 {
		words = append(words, fmt.Sprintf("ct mark %d", r.connMark))
	}
	if r.local {
		words = append(words, "fib daddr type local")
	}
	return strings.Join(append(words, p.nftVerdict(r.verdict)), " ")
}

func (p Plan) nftVerdict(v verdict) string {
	switch v {
	case toOutbound:
		return fmt.Sprintf("counter redirect to :%d", p.OutboundTo)
	case toInbound:
		return fmt.Sprintf("counter redirect to :%d", p.InboundTo)
	case toInboundTransparent:
		return fmt.Sprintf("counter tproxy to :%d accept", p.InboundTo)
	case toDNS:
		return fmt.Sprintf("counter redirect to :%d", p.DNSTo)
	case markConnection:
		return "ct mark set meta mark return"
	case markPacket:
		return "meta mark set ct mark return"
	default:
		return "return"
	}
}

func nftPorts(ports Ports) []string {
	out := make([]string, len(ports))
	for i, r := range ports {
		out[i] = r.String()
	}
	return out
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return out
}

func ids(accounts []Account) []string {
	out := make([]string, len(accounts))
	for i, a := range accounts {
		out[i] = fmt.Sprint(a.ID)
	}
	return out
}

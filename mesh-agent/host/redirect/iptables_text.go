package redirect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Saved is the output of iptables-save or ip6tables-save.
type Saved string

// confirmedList names the xt_recent list that records the confirmation for a family. With an empty
// mask, all addresses match its single entry.
func (p Plan) confirmedList(f family) string { return fmt.Sprintf("%s%d", p.Table, f) }

func (f family) unspecified() string {
	if f == ipv6 {
		return "::"
	}
	return "0.0.0.0"
}

// builtIn lists the kernel's chains that may lead to ours.
var builtIn = []hook{natOutput, natPrerouting, markOutput, markPrerouting}

func (p Plan) chainName(h hook) string { return strings.ToUpper(p.Table + "_" + h.name) }

// jump is the rule that leads from a kernel's chain to ours, as iptables-save prints it.
func (p Plan) jump(h hook) string {
	return fmt.Sprintf("-A %s -j %s", strings.ToUpper(h.name), p.chainName(h))
}

// IPTables renders the plan for iptables-restore --noflush (or ip6tables-restore), which changes
// each table atomically. It rebuilds our chains, and inserts jumps to them first in the kernel's
// chains.
func (p Plan) IPTables(six bool, saved Saved) string {
	f := ipv4
	if six {
		f = ipv6
	}
	wanted := map[hook][]rule{}
	if slices.Contains(p.families(), f) {
		for _, c := range p.chains() {
			wanted[c.hook] = c.rules
		}
	}
	var b strings.Builder
	for _, table := range []string{"nat", "mangle"} {
		text := p.iptablesTable(table, f, wanted, saved)
		if text != "" {
			fmt.Fprintf(&b, "*%s\n%sCOMMIT\n", table, text)
		}
	}
	return b.String()
}

// iptablesTable renders one table: first declarations, which empty existing chains; then rules;
// then removals.
func (p Plan) iptablesTable(table string, f family, wanted map[hook][]rule, saved Saved) string {
	var declared, rules, gone strings.Builder
	for _, h := range builtIn {
		if h.table != table {
			continue
		}
		name, from := p.chainName(h), strings.ToUpper(h.name)
		there := saved.has(table, ":"+name+" ")
		if there || wanted[h] != nil {
			fmt.Fprintf(&declared, ":%s - [0:0]\n", name)
		}
		jump := p.jump(h)
		switch {
		case wanted[h] != nil && !saved.has(table, jump):
			fmt.Fprintf(&rules, "-I %s 1 -j %s\n", from, name)
		case wanted[h] == nil && saved.has(table, jump):
			fmt.Fprintf(&gone, "-D %s -j %s\n", from, name)
		}
		if wanted[h] == nil && there {
			fmt.Fprintf(&gone, "-X %s\n", name)
		}
		for _, r := range wanted[h] {
			p.iptablesRule(&rules, name, f, r)
		}
	}
	return declared.String() + rules.String() + gone.String()
}

// has reports whether the table has this line, or, if line ends in a space, one that begins with
// it.
func (s Saved) has(table, line string) bool {
	in := ""
	for l := range strings.Lines(string(s)) {
		l = strings.TrimRight(l, "\n")
		if name, ok := strings.CutPrefix(l, "*"); ok {
			in = name
		}
		if in == table && (l == line || strings.HasSuffix(line, " ") && strings.HasPrefix(l, line)) {
			return true
		}
	}
	return false
}

// iptablesRule writes a rule for each combination of the match's lists.
func (p Plan) iptablesRule(b *strings.Builder, chain string, f family, r rule) {
	from, to := f.filter(r.from), f.filter(r.to)
	if len(r.from) > 0 && len(from) == 0 || len(r.to) > 0 && len(to) == 0 {
		return
	}
	combinations := []string{""}
	each := func(words []string) {
		if len(words) == 0 {
			return
		}
		var out []string
		for _, c := range combinations {
			for _, w := range words {
				out = append(out, c+" "+w)
			}
		}
		combinations = out
	}
	if r.unconfirmed {
		each([]string{fmt.Sprintf("-m recent --name %s ! --rcheck --seconds %d --mask %s --rsource",
			p.confirmedList(f), max(1, int(p.Timeout.Seconds())), f.unspecified())})
	}
	each(prefixed("-i ", iptablesInterfaces(r.in)))
	each(prefixed("-o ", iptablesInterfaces(r.out)))
	each(prefixed("-s ", iptablesPrefixes(from)))
	each(prefixed("-d ", iptablesPrefixes(to)))
	each(prefixed("-p ", r.protocols))
	if !r.ports.isAll() {
		each(iptablesPorts(r.ports))
	}
	each(prefixed("-m owner --uid-owner ", ids(r.users)))
	each(prefixed("-m owner --gid-owner ", ids(r.groups)))
	if r.mark != 0 {
		each([]string{fmt.Sprintf("-m mark --mark %d", r.mark)})
	}
	if r.connMark != 0 {
		each([]string{fmt.Sprintf("-m connmark --mark %d", r.connMark)})
	}
	if r.local {
		each([]string{"-m addrtype --dst-type LOCAL"})
	}
	fmt.Fprintf(b, "# %s.\n", p.describe(r))
	for _, c := range combinations {
		for _, target := range p.iptablesTargets(r.verdict) {
			fmt.Fprintf(b, "-A %s%s -m comment --comment %q -j %s\n", chain, c, r.why, target)
		}
	}
}

func (p Plan) iptablesTargets(v verdict) []string {
	switch v {
	case toOutbound:
		return []string{fmt.Sprintf("REDIRECT --to-ports %d", p.OutboundTo)}
	case toInbound:
		return []string{fmt.Sprintf("REDIRECT --to-ports %d", p.InboundTo)}
	case toInboundTransparent:
		return []string{fmt.Sprintf("TPROXY --on-port %d", p.InboundTo)}
	case toDNS:
		return []string{fmt.Sprintf("REDIRECT --to-ports %d", p.DNSTo)}
	case markConnection:
		return []string{"CONNMARK --save-mark", "RETURN"}
	case markPacket:
		return []string{"CONNMARK --restore-mark"}
	default:
		return []string{"RETURN"}
	}
}

func prefixed(prefix string, words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = prefix + w
	}
	return out
}

// iptablesInterfaces converts the wildcard * to iptables' +.
func iptablesInterfaces(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		if rest, ok := strings.CutSuffix(n, "*"); ok {
			n = rest + "+"
		}
		out[i] = n
	}
	return out
}

func iptablesPrefixes(prefixes []netip.Prefix) []string {
	out := make([]string, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.String()
	}
	return out
}

// iptablesPorts renders matches of up to fifteen ports, of which a range counts as two: multiport
// takes no more.
func iptablesPorts(ports Ports) []string {
	var out []string
	var words []string
	taken := 0
	flush := func() {
		switch {
		case len(words) == 1:
			out = append(out, "--dport "+words[0])
		case len(words) > 1:
			out = append(out, "-m multiport --dports "+strings.Join(words, ","))
		}
		words, taken = nil, 0
	}
	for _, r := range ports {
		takes, word := 1, fmt.Sprint(r.First)
		if r.First != r.Last {
			takes, word = 2, fmt.Sprintf("%d:%d", r.First, r.Last)
		}
		if taken+takes > 15 {
			flush()
		}
		words, taken = append(words, word), taken+takes
	}
	flush()
	return out
}

// Package names finds what a DNS name means in the mesh. An index is made of a table of names and never changes after that, so
// whoever looks something up needs no lock.
package names

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Options say from where names are asked.
type Options struct {
	// Domain completes short names: with shop.svc.cluster.local, reviews is reviews.shop.svc.cluster.local, and so is reviews.shop.
	Domain string
	// Search are the domains that resolvers on this machine try short names with: the search line of its resolv.conf.
	Search []string
	// Except are names that are never the mesh's.
	Except []string
}

// Index has the names of the mesh. All names in it are in lower case, without a dot at the end.
type Index struct {
	hosts     map[string]*Host
	wildcards map[string]*Host // by what follows the asterisk and its dot
	reverse   map[netip.Addr]string
	except    map[string]bool
	short     []string // domains that complete short names
	search    []string // domains that resolvers add to any name

	leftOut []string
}

// Host is what the mesh has for a name.
type Host struct {
	Name       string // may begin with an asterisk
	IPv4, IPv6 []netip.Addr
	Ports      []Port
}

// Port is one that a host serves.
type Port struct {
	Number uint16
	Name   string
	UDP    bool
}

// Found is what a name means.
type Found struct {
	*Host
	// Target is the name of the mesh that was meant, when the one asked for is that with a search domain at its end.
	Target string
	// Why says it in words.
	Why string
}

// The ranges of addresses that the mesh allocates itself: nobody else can say whose they are.
var allocated = []netip.Prefix{netip.MustParsePrefix("240.240.0.0/16"), netip.MustParsePrefix("2001:2::/48")}

// New makes an index of a table, which may be nil. Hosts that are no names, or have no address, are left out.
func New(table *ndsv1.NameTable, o Options) *Index {
	x := &Index{hosts: map[string]*Host{}, wildcards: map[string]*Host{}, reverse: map[netip.Addr]string{}, short: completions(clean(o.Domain))}
	for _, domain := range append(slices.Clone(x.short), o.Search...) {
		if domain = clean(domain); domain != "" && !slices.Contains(x.search, domain) {
			x.search = append(x.search, domain)
		}
	}
	slices.SortStableFunc(x.search, func(a, b string) int { return len(b) - len(a) })
	x.except = map[string]bool{}
	for _, name := range o.Except {
		x.except[clean(name)] = true
	}
	for name, info := range table.GetTable() {
		x.add(clean(name), info)
	}
	slices.Sort(x.leftOut)
	return x
}

func clean(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// completions are the domains that a short name may lack: for NAMESPACE.svc.DOMAIN, as Kubernetes writes it, each part of it from
// the right place on.
func completions(domain string) []string {
	if domain == "" {
		return nil
	}
	out := []string{domain}
	if parts := strings.SplitN(domain, ".", 3); len(parts) == 3 && parts[1] == "svc" {
		out = append(out, parts[1]+"."+parts[2], parts[2])
	}
	return out
}

func (x *Index) add(name string, info *ndsv1.NameTable_NameInfo) {
	host := &Host{Name: name}
	for _, text := range info.GetIps() {
		ip, err := netip.ParseAddr(text)
		switch ip = ip.Unmap(); {
		case err != nil:
		case ip.Is4():
			host.IPv4 = append(host.IPv4, ip)
		default:
			host.IPv6 = append(host.IPv6, ip.WithZone(""))
		}
	}
	suffix, wildcard := strings.CutPrefix(name, "*.")
	if _, ok := dns.IsDomainName(suffix); !ok || suffix == "" || len(suffix) > 250 || strings.ContainsAny(suffix, "*\\ ") || len(host.IPv4)+len(host.IPv6) == 0 {
		x.leftOut = append(x.leftOut, name)
		return
	}
	for _, p := range info.GetPorts() {
		if 0 < p.GetNumber() && p.GetNumber() < 1<<16 {
			host.Ports = append(host.Ports, Port{uint16(p.GetNumber()), strings.ToLower(p.GetName()), p.GetUdp()})
		}
	}
	if wildcard {
		x.wildcards[suffix] = host
		return
	}
	x.hosts[name] = host
	x.addReverse(host)
}

func (x *Index) addReverse(host *Host) {
	for _, ip := range slices.Concat(host.IPv4, host.IPv6) {
		if known := x.reverse[ip]; Allocated(ip) && (known == "" || host.Name < known) {
			x.reverse[ip] = host.Name
		}
	}
}

// Allocated tells whether the mesh allocated an address.
func Allocated(ip netip.Addr) bool {
	return slices.ContainsFunc(allocated, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Len is the number of names.
func (x *Index) Len() int { return len(x.hosts) + len(x.wildcards) }

// LeftOut are the hosts of the table that cannot be answered for.
func (x *Index) LeftOut() []string { return x.leftOut }

// Domains are the short names' completions, the longest first.
func (x *Index) Domains() []string { return x.short }

// Hosts are the names that there are, sorted; wildcards begin with an asterisk.
func (x *Index) Hosts() []string {
	out := make([]string, 0, x.Len())
	for name := range x.hosts {
		out = append(out, name)
	}
	for suffix := range x.wildcards {
		out = append(out, "*."+suffix)
	}
	slices.Sort(out)
	return out
}

// Find tells what a name means, however it is written. A name that somebody wrote in full goes before one that was completed, and
// that before a wildcard.
func (x *Index) Find(name string) (Found, bool) {
	name = clean(name)
	if x.except[name] {
		return Found{}, false
	}
	if host := x.hosts[name]; host != nil {
		return Found{Host: host, Why: "it is a host of the mesh"}, true
	}
	for _, domain := range x.short {
		if host := x.hosts[name+"."+domain]; host != nil {
			return Found{Host: host, Why: "it is short for " + host.Name}, true
		}
	}
	if found, ok := x.searched(name); ok {
		return found, true
	}
	if host := x.wildcard(name); host != nil {
		return Found{Host: host, Why: "it matches " + host.Name}, true
	}
	return Found{}, false
}

// searched finds what somebody means whose resolver adds a search domain to names with dots. A name without one is
// more likely a machine in that domain than a host of the mesh.
func (x *Index) searched(name string) (Found, bool) {
	for _, domain := range x.search {
		meant, ok := strings.CutSuffix(name, "."+domain)
		if !ok || !strings.Contains(meant, ".") {
			continue
		}
		host := x.hosts[meant]
		if host == nil {
			host = x.wildcard(meant)
		}
		if host != nil {
			return Found{host, meant, "it is " + meant + " with the search domain " + domain}, true
		}
	}
	return Found{}, false
}

// wildcard is the host with the longest match.
func (x *Index) wildcard(name string) *Host {
	for len(x.wildcards) > 0 {
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			break
		}
		if host := x.wildcards[rest]; host != nil {
			return host
		}
		name = rest
	}
	return nil
}

// Reverse is the host that was given an address.
func (x *Index) Reverse(ip netip.Addr) (string, bool) {
	name, ok := x.reverse[ip]
	return name, ok
}

// Service takes apart a name that SRV records are asked by: _NAME._tcp.HOST.
func Service(name string) (port, transport, host string, ok bool) {
	parts := strings.SplitN(clean(name), ".", 3)
	if len(parts) < 3 || !strings.HasPrefix(parts[0], "_") || (parts[1] != "_tcp" && parts[1] != "_udp") {
		return "", "", "", false
	}
	return parts[0][1:], parts[1][1:], parts[2], true
}

// Served are the ports of a host that SRV records of such a name are about.
func (h *Host) Served(port, transport string) []Port {
	var out []Port
	for _, p := range h.Ports {
		if p.Name == port && p.UDP == (transport == "udp") {
			out = append(out, p)
		}
	}
	return out
}

// Address reads the name that PTR records of an address are asked by.
func Address(name string) (ip netip.Addr, ok bool) {
	name = clean(name)
	if rest, is := strings.CutSuffix(name, ".in-addr.arpa"); is {
		parts := strings.Split(rest, ".")
		slices.Reverse(parts)
		ip, err := netip.ParseAddr(strings.Join(parts, "."))
		return ip, err == nil && ip.Is4()
	}
	rest, is := strings.CutSuffix(name, ".ip6.arpa")
	nibbles := strings.Split(rest, ".")
	if !is || len(nibbles) != 32 {
		return ip, false
	}
	slices.Reverse(nibbles)
	var text strings.Builder
	for i, n := range nibbles {
		if len(n) != 1 {
			return ip, false
		}
		if i > 0 && i%4 == 0 {
			text.WriteByte(':')
		}
		text.WriteString(n)
	}
	ip, err := netip.ParseAddr(text.String())
	return ip, err == nil
}

// Package names resolves DNS names to hosts of the mesh. An Index is immutable, so lookups need no
// lock.
package names

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Options describe the machine that asks.
type Options struct {
	// Domain completes short names: with shop.svc.cluster.local, both reviews and reviews.shop mean
	// reviews.shop.svc.cluster.local.
	Domain string
	// Search is the search line of the machine's resolv.conf: the domains that resolvers append to
	// short names.
	Search []string
	// Except lists names that the mesh never answers for.
	Except []string
}

// Index holds the names of the mesh, in lower case without a final dot.
type Index struct {
	hosts     map[string]*Host
	wildcards map[string]*Host // keyed by what follows "*."
	reverse   map[netip.Addr]string
	except    map[string]bool
	short     []string // suffixes that complete short names
	search    []string // domains that resolvers append, the longest first

	leftOut []string
}

// Host is an entry of the name table.
type Host struct {
	Name       string // may begin with an asterisk
	IPv4, IPv6 []netip.Addr
	Ports      []Port
}

// Port is a port that a host serves.
type Port struct {
	Number uint16
	Name   string
	UDP    bool
}

// Found is the result of a lookup.
type Found struct {
	*Host
	// Target is the mesh's own name for the host where the name asked for has a search domain
	// appended; otherwise it is empty.
	Target string
	// Why explains the match in words.
	Why string
}

// The ranges from which the mesh allocates addresses; no other DNS server knows their names.
var allocated = []netip.Prefix{netip.MustParsePrefix("240.240.0.0/16"), netip.MustParsePrefix("2001:2::/48")}

// New builds an index from a table, which may be nil. It leaves out hosts with an invalid name or
// without an address.
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

// completions returns the suffixes that a short name may lack. NAMESPACE.svc.DOMAIN, Kubernetes'
// form, has three: the whole, svc.DOMAIN and DOMAIN.
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

// Allocated reports whether the mesh allocated an address.
func Allocated(ip netip.Addr) bool {
	return slices.ContainsFunc(allocated, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Len returns the number of names.
func (x *Index) Len() int { return len(x.hosts) + len(x.wildcards) }

// LeftOut returns the hosts of the table that New left out.
func (x *Index) LeftOut() []string { return x.leftOut }

// Domains returns the suffixes that complete short names, the longest first.
func (x *Index) Domains() []string { return x.short }

// Hosts returns all names, sorted, wildcards included.
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

// Find looks a name up in any spelling. An exact match wins over a completed name, that over a name
// with a search domain appended, and that over a wildcard.
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

// searched finds a name to which a resolver has appended a search domain. A single label is left
// out: it is more likely a machine in that domain than a host of the mesh.
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

// wildcard returns the host with the longest match.
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

// Reverse returns the host that an allocated address belongs to.
func (x *Index) Reverse(ip netip.Addr) (string, bool) {
	name, ok := x.reverse[ip]
	return name, ok
}

// Service splits the name of an SRV query: _NAME._tcp.HOST.
func Service(name string) (port, transport, host string, ok bool) {
	parts := strings.SplitN(clean(name), ".", 3)
	if len(parts) < 3 || !strings.HasPrefix(parts[0], "_") || (parts[1] != "_tcp" && parts[1] != "_udp") {
		return "", "", "", false
	}
	return parts[0][1:], parts[1][1:], parts[2], true
}

// Served returns the ports that match an SRV query.
func (h *Host) Served(port, transport string) []Port {
	var out []Port
	for _, p := range h.Ports {
		if p.Name == port && p.UDP == (transport == "udp") {
			out = append(out, p)
		}
	}
	return out
}

// Address parses the name of a PTR query.
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

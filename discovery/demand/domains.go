package demand

import (
	"net"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/wellformed"
)

// domains finds the virtual host that Envoy would choose for a request if it had all of a route
// configuration.
type domains struct {
	// separate says that virtual hosts are sent apart from the configuration.
	separate   bool
	ignorePort bool
	exact      map[string]string // the names of virtual hosts
	suffixes   wildcards         // as in *.example.com
	prefixes   wildcards         // as in example.*
}

// wildcards are kept with their greatest length, because the longest match counts.
type wildcards struct {
	longest int
	of      map[string]string
}

func newDomains() *domains {
	return &domains{exact: map[string]string{}, suffixes: wildcards{of: map[string]string{}}, prefixes: wildcards{of: map[string]string{}}}
}

// configure reads what the route configuration itself says.
func (d *domains) configure(r *served.Resource) {
	m := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(r.Body.GetValue(), m); err != nil {
		panic("decode a route configuration that was encoded here: " + err.Error())
	}
	d.separate, d.ignorePort = m.GetVhds() != nil, m.GetIgnorePortInHostMatching()
}

// anyHost is the domain of the virtual host that is chosen if no other is. No request can ask for
// it by name.
const anyHost = "*"

func (d *domains) forAny() string { return d.exact[anyHost] }

func (d *domains) add(domain, host string) {
	place, key := d.place(domain)
	place[key] = host
}

// remove drops a domain, unless another virtual host has it by now.
func (d *domains) remove(domain, host string) {
	if place, key := d.place(domain); place[key] == host {
		delete(place, key)
	}
}

// place returns where a domain is kept.
func (d *domains) place(domain string) (in map[string]string, key string) {
	domain = strings.ToLower(domain)
	switch {
	case domain == anyHost:
	case strings.HasPrefix(domain, "*"):
		return d.suffixes.place(domain[1:])
	case strings.HasSuffix(domain, "*"):
		return d.prefixes.place(domain[:len(domain)-1])
	}
	return d.exact, domain
}

func (w *wildcards) place(key string) (map[string]string, string) {
	w.longest = max(w.longest, len(key))
	return w.of, key
}

// find returns the virtual host for the host of a request, in Envoy's order: an exact domain, the
// longest wildcard at the beginning, the longest at the end, and the one for any host.
func (d *domains) find(host string) string {
	if d == nil {
		return ""
	}
	host = strings.ToLower(host)
	if d.ignorePort {
		host = withoutPort(host)
	}
	if name := d.exact[host]; name != "" {
		return name
	}
	if name := d.suffixes.find(host, func(n int) string { return host[len(host)-n:] }); name != "" {
		return name
	}
	if name := d.prefixes.find(host, func(n int) string { return host[:n] }); name != "" {
		return name
	}
	return d.forAny()
}

// find returns the longest wildcard that matches. Its star must stand for something.
func (w *wildcards) find(host string, end func(n int) string) string {
	for n := min(w.longest, len(host)-1); n > 0; n-- {
		if name := w.of[end(n)]; name != "" {
			return name
		}
	}
	return ""
}

// withoutPort leaves IPv6 addresses their brackets, as Envoy does.
func withoutPort(host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil {
		return host[:len(host)-len(port)-1]
	}
	return host
}

// domainsField is the number of a virtual host's field for domains.
const domainsField = 2

// domainsOf decodes only the domains of an encoded virtual host: there may be thousands of hosts.
// It returns none for nil.
func domainsOf(r *served.Resource) (list []string) {
	if r == nil {
		return nil
	}
	for f := range wellformed.Fields(r.Body.GetValue()) {
		if f.IsBytes() && f.Number == domainsField {
			list = append(list, string(f.Bytes))
		}
	}
	return list
}

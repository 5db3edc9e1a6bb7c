package demand

import (
	"net"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/wellformed"
)

// domains finds the virtual host of a route configuration that Envoy would choose for a request, if it had them all.
type domains struct {
	// separate tells that virtual hosts are sent by themselves, and not in the configuration.
	separate   bool
	ignorePort bool
	exact      map[string]string // to the virtual host's name
	suffixes   wildcards         // of *.example.com
	prefixes   wildcards         // of example.*
}

// wildcards are by their length, since the longest that matches counts.
type wildcards struct {
	longest int
	of      map[string]string
}

func newDomains() *domains {
	return &domains{exact: map[string]string{}, suffixes: wildcards{of: map[string]string{}}, prefixes: wildcards{of: map[string]string{}}}
}

// configure takes in what the route configuration itself says.
func (d *domains) configure(r *served.Resource) {
	m := &routev3.RouteConfiguration{}
	if err := proto.Unmarshal(r.Body.GetValue(), m); err != nil {
		panic("decode a route configuration that was encoded here: " + err.Error())
	}
	d.separate, d.ignorePort = m.GetVhds() != nil, m.GetIgnorePortInHostMatching()
}

// anyHost is the domain of a virtual host for what no other is for. No request can name it.
const anyHost = "*"

func (d *domains) forAny() string { return d.exact[anyHost] }

func (d *domains) add(domain, host string) {
	place, key := d.place(domain)
	place[key] = host
}

// remove forgets a domain, unless another virtual host has it by now.
func (d *domains) remove(domain, host string) {
	if place, key := d.place(domain); place[key] == host {
		delete(place, key)
	}
}

// place is where a domain is kept.
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

// find returns the virtual host for what a request names as its host, as Envoy searches: the exact one, the longest wildcard at the
// beginning, the longest at the end, and the one for all.
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

// find takes the longest wildcard; something must stand where its star is.
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

// domainsField is the number of the field that has a virtual host's domains.
const domainsField = 2

// domainsOf reads the domains of an encoded virtual host, and nothing else of it: there may be thousands. Of none there are none.
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

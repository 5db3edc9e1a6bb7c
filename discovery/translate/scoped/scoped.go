// Package scoped divides route configurations by hosts.
//
// Envoy makes a whole route configuration anew for each virtual host that comes into it: on a
// gateway with thousands of hosts, one more costs as much as all. So each exact host has a route
// configuration of its own there, and those with wildcards have one together. Envoy finds them by a
// key that names the routes and the request's host.
package scoped

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Route is a route configuration for requests of one host, or of all hosts that have none. It is
// not made yet.
type Route struct {
	Base *routev3.RouteConfiguration // without hosts
	Host string                      // or RestOfHosts

	Hosts          []virtualhost.Draft
	CountsAttempts bool
}

// RestOfHosts stands in a key for all hosts that have none of their own.
const RestOfHosts = "*"

// Name is the name by which it is sent, and its key.
func (s Route) Name() string { return scopeKey(s.Base.GetName(), s.Host) }

func scopeKey(configuration, host string) string { return configuration + "/" + host }

// Same reports whether two become the same message, for proxies of the same traits in the same
// surroundings. It may report false of such.
func (s Route) Same(other Route) bool {
	return s.Host == other.Host && s.Base.GetName() == other.Base.GetName() && slices.EqualFunc(s.Hosts, other.Hosts, virtualhost.Draft.Same)
}

// Make makes the message.
func (s Route) Make() *routev3.ScopedRouteConfiguration {
	hosts := make([]*routev3.VirtualHost, len(s.Hosts))
	for i, h := range s.Hosts {
		hosts[i] = h.Message(s.CountsAttempts)
	}
	return scopedConfiguration(s.Base, s.Host, hosts)
}

// On reports whether listeners find the routes of a configuration by hosts. They do from the
// beginning if one is a listener of the Gateway API that may get any number of hosts, and otherwise
// if so many rules are for exact hosts that this costs Envoy less than making all anew. It does not
// depend on what was before: so all replicas say the same.
func On(v view.View, configuration string) bool {
	if !Offered(v, configuration) {
		return false
	}
	servers := v.Mesh.Frontend(v.Proxy).Routes[configuration]
	return slices.ContainsFunc(servers, (*mesh.Server).GetsHostsFromRoutes) || manyRules(v, servers)
}

// manyRules counts rules, since hosts of one rule share its routes while they are together.
func manyRules(v view.View, servers []*mesh.Server) bool {
	rules := 0
	for _, s := range servers {
		for _, vs := range v.Mesh.VirtualServicesOf(s.Gateway, v.Proxy.Namespace) {
			if !slices.ContainsFunc(s.HostsFor(vs), IsExact) {
				continue
			}
			if rules++; rules >= v.Proxy.ScopedFrom {
				return true
			}
		}
	}
	return false
}

// Offered reports whether a route configuration is sent by hosts, too. Both forms are always there:
// when a listener begins to use the other one, connections to the old listener last until Envoy has
// drained them, and must see changes, too.
func Offered(v view.View, configuration string) bool {
	return !v.Sidecar() && v.Proxy.ScopedFrom > 0 && scopable(configuration)
}

// scopable reports whether a name can be in a key. The host is what follows the first slash, up to
// a colon.
func scopable(configuration string) bool {
	return !strings.ContainsFunc(configuration, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && !strings.ContainsRune(".-_", c)
	})
}

// IsExact reports whether a host, or a domain of a virtual host, is a plain name.
func IsExact(host string) bool { return !hostname.IsWildcard(host) && !strings.ContainsAny(host, "*:") }

// AsHost is the virtual host of an exact host, named by the host alone.
func (s Route) AsHost() virtualhost.Host {
	h := s.Hosts[0]
	h.Name = s.Host
	return h.In(s.Base.GetName(), s.CountsAttempts)
}

// Divide divides a route configuration that was made whole, since patches want it so. A patch may
// write domains that differ only in case: the first has the requests.
func Divide(whole *routev3.RouteConfiguration) (out []*routev3.ScopedRouteConfiguration) {
	base, written := message.Copied(whole), map[string]bool{}
	base.VirtualHosts = nil
	var others []*routev3.VirtualHost
	for _, h := range whole.GetVirtualHosts() {
		var rest []string
		for _, domain := range h.GetDomains() {
			if !IsExact(domain) {
				rest = append(rest, domain)
				continue
			}
			host := strings.ToLower(domain)
			if written[host] {
				continue
			}
			one := message.Copied(h)
			one.Domains, written[host] = []string{domain}, true
			out = append(out, scopedConfiguration(base, host, []*routev3.VirtualHost{one}))
		}
		if len(rest) > 0 {
			h = message.Copied(h)
			h.Domains = rest
			others = append(others, h)
		}
	}
	return append(out, scopedConfiguration(base, RestOfHosts, others))
}

// scopedConfiguration is the part of a route configuration for one host, or for all others. It may
// change the hosts.
func scopedConfiguration(base *routev3.RouteConfiguration, host string, hosts []*routev3.VirtualHost) *routev3.ScopedRouteConfiguration {
	key := scopeKey(base.GetName(), host)
	part := message.Copied(base)
	part.Name, part.VirtualHosts = key, hosts
	part.RequestHeadersToRemove = append(slices.Clip(base.GetRequestHeadersToRemove()), scopeHeader)
	part.TypedPerFilterConfig = map[string]*anypb.Any{scopeFilterName: noScopeFilter}
	maps.Copy(part.TypedPerFilterConfig, base.GetTypedPerFilterConfig())
	if host != RestOfHosts {
		for _, h := range hosts {
			h.Metadata = withKnown(h.GetMetadata())
		}
	}
	return &routev3.ScopedRouteConfiguration{
		Name: key, RouteConfiguration: part,
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
			Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: key},
		}}},
	}
}

// withKnown adds a note for the filter: the request's host is known, and merely has no route for
// it.
func withKnown(m *corev3.Metadata) *corev3.Metadata {
	if m == nil {
		return knownHost
	}
	m = message.Copied(m)
	m.FilterMetadata = maps.Clone(m.GetFilterMetadata())
	if m.GetFilterMetadata() == nil {
		m.FilterMetadata = map[string]*structpb.Struct{}
	}
	maps.Copy(m.GetFilterMetadata(), knownHost.GetFilterMetadata())
	return m
}

var knownHost = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
	scopeFilterName: {Fields: map[string]*structpb.Value{knownField: structpb.NewBoolValue(true)}},
}}

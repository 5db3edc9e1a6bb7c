package translate

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Envoy makes a whole route configuration anew for each virtual host that comes into it: of a gateway with thousands of hosts, a further one
// costs as much as all. So there each exact host has a route configuration of its own, which Envoy finds by a key that names the routes and the
// request's host, and those with wildcards have one together. How requests come by their key is with the listeners.

// Scoped is a route configuration for requests of one host, or of all hosts that have none, that is not made yet.
type Scoped struct {
	base *routev3.RouteConfiguration // without hosts
	host string                      // or restOfHosts

	hosts          []virtualHost
	countsAttempts bool
}

// restOfHosts stands in a key for all hosts that have none of their own.
const restOfHosts = "*"

// Name is that by which it is sent, and its key.
func (s Scoped) Name() string { return scopeKey(s.base.GetName(), s.host) }

func scopeKey(configuration, host string) string { return configuration + "/" + host }

// Same tells whether two come to the same, for proxies of the same traits in the same surroundings. It may say false of such.
func (s Scoped) Same(other Scoped) bool {
	return s.host == other.host && s.base.GetName() == other.base.GetName() && slices.EqualFunc(s.hosts, other.hosts, virtualHost.same)
}

// Make makes it.
func (s Scoped) Make() *routev3.ScopedRouteConfiguration {
	hosts := make([]*routev3.VirtualHost, len(s.hosts))
	for i, h := range s.hosts {
		hosts[i] = h.message(s.countsAttempts)
	}
	return scopedConfiguration(s.base, s.host, hosts)
}

// scopes tells whether a route configuration is divided by hosts: where so many rules are for exact hosts that this costs Envoy less than making
// all anew. It counts rules, since the hosts of one rule share its routes where they are together. That depends on nothing that was before: so all
// replicas say the same.
func (v view) scopes(configuration string) bool {
	if !v.offersScopes(configuration) {
		return false
	}
	from, rules := v.proxy.ScopedFrom, 0
	for _, s := range v.mesh.Frontend(v.proxy).Routes[configuration] {
		for _, vs := range v.mesh.VirtualServicesOf(s.Gateway, v.proxy.Namespace) {
			if !slices.ContainsFunc(s.HostsFor(vs), isScoped) {
				continue
			}
			if rules++; rules >= from {
				return true
			}
		}
	}
	return false
}

// offersScopes tells whether there are scopes of a route configuration, whether a listener finds its routes by them or not. There always are both forms:
// when a listener comes to use the other, connections to the old one last for as long as Envoy drains them, and what changes meanwhile is for them, too.
func (v view) offersScopes(configuration string) bool {
	return !v.sidecar() && v.proxy.ScopedFrom > 0 && scopable(configuration)
}

// scopable tells whether a name can be in a key: the host is what follows the first slash, up to a colon.
func scopable(configuration string) bool {
	return !strings.ContainsFunc(configuration, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		return !letter && !strings.ContainsRune(".-_", c)
	})
}

// isScoped tells whether requests for a host, or for a domain of a virtual host, are found by its name.
func isScoped(host string) bool { return !mesh.IsWildcard(host) && !strings.ContainsAny(host, "*:") }

// divisionByHosts is a route configuration divided into virtual hosts and, once more, by hosts, with what is for all other hosts, which is always
// there. Where listeners find their routes by hosts, virtual hosts are divided likewise, so that a change of one is one of the other.
func (v view) divisionByHosts(configuration string) Division {
	servers := v.mesh.Frontend(v.proxy).Routes[configuration]
	all, counts := v.gatewayHosts(servers), v.countsAttempts()
	d := Division{Configuration: v.configuration(configuration)}
	askForHosts(d.Configuration)
	together := all.list(servers[0])
	others := Scoped{base: v.configuration(configuration), host: restOfHosts, countsAttempts: counts}
	for _, name := range slices.Sorted(maps.Keys(all.byName)) {
		if isScoped(name) {
			d.Scopes = append(d.Scopes, Scoped{base: others.base, host: name, hosts: []virtualHost{*all.byName[name]}, countsAttempts: counts})
			delete(all.byName, name)
		}
	}
	if len(all.byName) > 0 { // where there are none, what is not found is answered by 404, too
		others.hosts = all.list(servers[0])
	}
	if v.scopes(configuration) {
		for _, s := range d.Scopes {
			d.Hosts = append(d.Hosts, s.asHost())
		}
		if together = others.hosts; len(together) == 0 {
			together = []virtualHost{nobody}
		}
	}
	for _, h := range together {
		h.name = HostName(configuration, h.name)
		d.Hosts = append(d.Hosts, Host{h, counts})
	}
	d.Scopes = append(d.Scopes, others)
	return d
}

// asHost is the virtual host of an exact host, named by that alone.
func (s Scoped) asHost() Host {
	h := s.hosts[0]
	h.name = HostName(s.base.GetName(), s.host)
	return Host{h, s.countsAttempts}
}

// divideByHosts divides a route configuration that was made whole, as patches want it. Of domains that differ in case alone, as a patch may have them,
// the first has the requests.
func divideByHosts(whole *routev3.RouteConfiguration) (out []*routev3.ScopedRouteConfiguration) {
	base, written := copied(whole), map[string]bool{}
	base.VirtualHosts = nil
	var others []*routev3.VirtualHost
	for _, h := range whole.GetVirtualHosts() {
		var rest []string
		for _, domain := range h.GetDomains() {
			if !isScoped(domain) {
				rest = append(rest, domain)
				continue
			}
			host := strings.ToLower(domain)
			if written[host] {
				continue
			}
			one := copied(h)
			one.Domains, written[host] = []string{domain}, true
			out = append(out, scopedConfiguration(base, host, []*routev3.VirtualHost{one}))
		}
		if len(rest) > 0 {
			h = copied(h)
			h.Domains = rest
			others = append(others, h)
		}
	}
	return append(out, scopedConfiguration(base, restOfHosts, others))
}

// scopedConfiguration is the part of a route configuration for one host, or all others. It may write to the hosts.
func scopedConfiguration(base *routev3.RouteConfiguration, host string, hosts []*routev3.VirtualHost) *routev3.ScopedRouteConfiguration {
	key := scopeKey(base.GetName(), host)
	part := copied(base)
	part.Name, part.VirtualHosts = key, hosts
	part.RequestHeadersToRemove = append(slices.Clip(base.GetRequestHeadersToRemove()), scopeHeader)
	part.TypedPerFilterConfig = map[string]*anypb.Any{scopeFilterName: noScopeFilter}
	maps.Copy(part.TypedPerFilterConfig, base.GetTypedPerFilterConfig())
	if host != restOfHosts {
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

// withKnown adds what tells the filter that a request's host is known, and merely has no route for it.
func withKnown(m *corev3.Metadata) *corev3.Metadata {
	if m == nil {
		return knownHost
	}
	m = copied(m)
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

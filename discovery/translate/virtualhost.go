package translate

import (
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// routeGroup is a list of routes and the hosts that they are for: services, and hosts that only a rule names.
type routeGroup struct {
	services []*mesh.Service
	hosts    []string
	routes   []*routev3.Route
}

// routeGroups lists the groups on a port: those of the VirtualServices in their order, then one for each service that no
// VirtualService routes.
func (v view) routeGroups(egress *mesh.Egress, port uint32) []routeGroup {
	services, order := servicesOnPort(egress, port)
	var out []routeGroup
	routed := map[string]bool{}
	for _, vs := range egress.VirtualServices {
		if port != defaultHTTPPort && !names(vs, services, order) {
			continue
		}
		group, ok := v.virtualServiceGroup(egress, vs, services, order, port)
		if !ok {
			continue
		}
		for _, s := range group.services {
			routed[s.Hostname] = true
		}
		out = append(out, group)
	}
	for _, host := range order {
		s := services[host]
		if !routed[host] && s.Port(port).Protocol.HasRoutes() {
			out = append(out, routeGroup{services: []*mesh.Service{s}, routes: []*routev3.Route{v.defaultRoute(s, port)}})
		}
	}
	return out
}

// defaultHTTPPort is the port on which rules also apply to hosts that are no service.
const defaultHTTPPort = 80

// servicesOnPort finds the services with this port by host; of several for a host the last counts.
func servicesOnPort(egress *mesh.Egress, port uint32) (services map[string]*mesh.Service, order []string) {
	services = map[string]*mesh.Service{}
	for _, s := range egress.Services {
		if s.Port(port) == nil {
			continue
		}
		if services[s.Hostname] == nil {
			order = append(order, s.Hostname)
		}
		services[s.Hostname] = s
	}
	return services, order
}

// names reports whether a rule is for one of the services.
func names(vs *mesh.VirtualService, services map[string]*mesh.Service, order []string) bool {
	for _, host := range vs.Spec.Hosts {
		if services[host] != nil {
			return true
		}
		overlaps := func(service string) bool {
			return (mesh.IsWildcard(host) || mesh.IsWildcard(service)) && mesh.HostsOverlap(host, service)
		}
		if slices.ContainsFunc(order, overlaps) {
			return true
		}
	}
	return false
}

// virtualServiceGroup is what a rule contributes to a port; false if it has no route there for this proxy.
func (v view) virtualServiceGroup(egress *mesh.Egress, vs *mesh.VirtualService, services map[string]*mesh.Service, order []string, port uint32) (routeGroup, bool) {
	group := routeGroup{routes: v.httpRoutes(vs, services, port)}
	if len(group.routes) == 0 {
		return group, false
	}
	for _, host := range vs.Spec.Hosts {
		switch {
		case mesh.IsWildcard(host):
			group.addWildcard(egress, vs, host, services, order)
		case services[host] != nil:
			group.services = append(group.services, services[host])
		default:
			group.hosts = append(group.hosts, host)
		}
	}
	all := group.services
	group.services = slices.DeleteFunc(slices.Clone(all), func(s *mesh.Service) bool { return !s.Port(port).Protocol.HasRoutes() })
	return group, len(group.services) > 0 || port == defaultHTTPPort && len(all) == 0
}

// addWildcard adds the services under a wildcard for which no other rule is more specific. A wildcard without any
// service stands for itself.
func (g *routeGroup) addWildcard(egress *mesh.Egress, vs *mesh.VirtualService, wildcard string, services map[string]*mesh.Service, order []string) {
	found := false
	for _, host := range order {
		if !mesh.HostsOverlap(host, wildcard) {
			continue
		}
		found = true
		if egress.WildcardOwner(host) == vs {
			g.services = append(g.services, services[host])
		}
	}
	if !found {
		g.hosts = append(g.hosts, wildcard)
	}
}

// hostBuilder makes virtual hosts whose names and domains are unique: Envoy refuses a configuration where one is twice.
// The first to claim a domain keeps it.
type hostBuilder struct {
	view
	port    uint32
	names   map[string]bool
	domains map[string]bool
	known   map[string]bool // full host names of services, which no short form may claim
	out     []*routev3.VirtualHost
}

func (b *hostBuilder) add(groups []routeGroup) {
	for _, g := range groups {
		for _, s := range g.services {
			b.known[s.Hostname] = true
		}
	}
	for _, g := range groups {
		for _, host := range g.hosts {
			b.addHost(host, []string{asHost(host)}, nil, g.routes)
		}
		for _, s := range g.services {
			domains, short := serviceDomains(s, b.proxy.Domain)
			b.addHost(s.Hostname, domains, short, g.routes)
		}
	}
}

func (b *hostBuilder) addHost(host string, domains, short []string, routes []*routev3.Route) {
	name := hostPort(host, b.port)
	if b.names[name] {
		return
	}
	b.names[name] = true
	domains = slices.DeleteFunc(domains, func(d string) bool {
		key := strings.ToLower(d)
		taken := b.domains[key] || b.known[d] && slices.Contains(short, d)
		b.domains[key] = b.domains[key] || !taken
		return taken
	})
	if len(domains) > 0 {
		b.out = append(b.out, &routev3.VirtualHost{
			Name: name, Domains: domains, Routes: routes, IncludeRequestAttemptCount: true,
		})
	}
}

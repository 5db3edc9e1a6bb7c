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
	services := servicesOnPort(egress, port)
	var out []routeGroup
	routed := map[string]bool{}
	for _, vs := range egress.VirtualServices {
		if port != defaultHTTPPort && !slices.ContainsFunc(vs.Spec.GetHosts(), services.includes) {
			continue
		}
		group, ok := v.virtualServiceGroup(vs, services)
		if !ok {
			continue
		}
		for _, s := range group.services {
			routed[s.Hostname] = true
		}
		out = append(out, group)
	}
	for _, host := range services.hosts {
		s := services.byHost[host]
		if !routed[host] && s.Port(port).Protocol.HasRoutes() {
			out = append(out, routeGroup{services: []*mesh.Service{s}, routes: []*routev3.Route{v.defaultRoute(s, port)}})
		}
	}
	return out
}

// defaultHTTPPort is the port on which rules also apply to hosts that are no service.
const defaultHTTPPort = 80

// virtualServiceGroup is what a rule contributes to a port; false if it has no route there for this proxy.
func (v view) virtualServiceGroup(vs *mesh.VirtualService, services portServices) (routeGroup, bool) {
	onPort := func(host string) *mesh.Service { return services.byHost[host] }
	c := routeContext{view: v, vs: vs, port: services.port, gateways: onSidecars, service: onPort}
	group := routeGroup{routes: c.routes()}
	if len(group.routes) == 0 {
		return group, false
	}
	for _, host := range vs.Spec.GetHosts() {
		group.services = append(group.services, services.routedBy(vs, host)...)
		if !services.names(host) {
			group.hosts = append(group.hosts, host)
		}
	}
	all := group.services
	group.services = slices.DeleteFunc(slices.Clone(all), func(s *mesh.Service) bool {
		return !s.Port(services.port).Protocol.HasRoutes()
	})
	return group, len(group.services) > 0 || services.port == defaultHTTPPort && len(all) == 0
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
			domains, short := serviceDomains(s, b.proxy)
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
			Name: name, Domains: domains, Routes: routes, IncludeRequestAttemptCount: b.countsAttempts(),
		})
	}
}

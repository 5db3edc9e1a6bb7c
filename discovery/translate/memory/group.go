package memory

import (
	"iter"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// routeGroup is a list of routes and what they are for: services, and hosts that only a rule names.
type routeGroup struct {
	services []*mesh.Service
	hosts    []string
	routes   *virtualhost.List
}

// names are those of the group's virtual hosts.
func (g *routeGroup) names(port uint32) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, host := range g.hosts {
			if !yield(naming.HostPort(host, port)) {
				return
			}
		}
		for _, s := range g.services {
			if !yield(naming.HostPort(s.Hostname, port)) {
				return
			}
		}
	}
}

// alike reports whether two groups are for the same hosts.
func (g *routeGroup) alike(other *routeGroup) bool {
	return slices.EqualFunc(g.services, other.services, func(s, t *mesh.Service) bool { return s.Shape == t.Shape }) && slices.Equal(g.hosts, other.hosts)
}

// ruledGroup is the group that a rule makes on a port, if it makes one, with the hosts that this
// depends on.
type ruledGroup struct {
	routeGroup

	there  bool
	hosts  []string // nil for more than can be listed
	usedIn int      // the last round in which the rule was there
}

// knownGroup is a remembered group, with a set of the hosts that it depends on. A host that is not
// in the set does not matter to the group.
type knownGroup struct {
	*ruledGroup

	bits hostBits
}

// routeGroups lists the groups on a port: those of the VirtualServices in their order, then one for
// each service that no VirtualService routes.
func (p *portHosts) routeGroups(v recalling, changed func(host string) bool) []routeGroup {
	out := slices.Grow(p.spare[:0], len(p.services.hosts))
	p.forget()
	for _, vs := range p.services.egress.VirtualServices {
		group := p.ruled[vs].ruledGroup
		if group == nil || group.usedIn != p.round-1 || group.hosts == nil || slices.ContainsFunc(group.hosts, changed) {
			group = v.ruledGroup(vs, p.services)
			p.ruled[vs] = group.known()
		}
		if group.usedIn = p.round; !group.there {
			continue
		}
		for _, s := range group.services {
			p.routed[s.Hostname] = true
		}
		out = append(out, group.routeGroup)
	}
	for _, host := range p.services.hosts {
		s := p.services.byHost[host]
		if !p.routed[host] && s.Port(p.port).Protocol.HasRoutes() {
			out = append(out, routeGroup{services: []*mesh.Service{s}, routes: v.memory.direct(v.View, s, p.port)})
		}
	}
	return out
}

// forget drops what was noted of the last groups. It drops rules that are gone once they outnumber
// the others.
func (p *portHosts) forget() {
	if p.ruled == nil {
		rules := len(p.services.egress.VirtualServices)
		p.ruled, p.routed = make(map[*mesh.VirtualService]knownGroup, rules), make(map[string]bool, rules)
	}
	clear(p.routed)
	p.round++
	all := p.services.egress.VirtualServices
	if len(p.ruled) <= 2*len(all) {
		return
	}
	kept := make(map[*mesh.VirtualService]knownGroup, len(all))
	for _, vs := range all {
		if group := p.ruled[vs]; group.ruledGroup != nil {
			kept[vs] = group
		}
	}
	p.ruled = kept
}

func (v recalling) ruledGroup(vs *mesh.VirtualService, services portServices) *ruledGroup {
	out := &ruledGroup{}
	hosts := vs.Spec.GetHosts()
	if !slices.ContainsFunc(hosts, hostname.IsWildcard) {
		out.hosts = slices.Concat(hosts, vs.RequestsTo())
	}
	if services.port == DefaultHTTPPort || slices.ContainsFunc(hosts, services.includes) {
		out.routeGroup, out.there = v.virtualServiceGroup(vs, services)
	}
	return out
}

// destinationsOn finds the services that rules send to on a port. A pool has ports of its own alone.
func (v recalling) destinationsOn(services portServices) func(host string) *mesh.Service {
	return func(host string) *mesh.Service {
		if gatewayapi.IsPoolHost(host) {
			return v.Scope.Service(host)
		}
		return services.byHost[host]
	}
}

// DefaultHTTPPort is the port on which rules also apply to hosts that are no service.
const DefaultHTTPPort = 80

// virtualServiceGroup is the group of a rule on a port; false if the rule has no route there for
// this proxy.
func (v recalling) virtualServiceGroup(vs *mesh.VirtualService, services portServices) (routeGroup, bool) {
	c := route.Context{View: v.View, Rule: vs, Port: services.port, Gateways: view.OnSidecars, Service: v.destinationsOn(services)}
	group := routeGroup{routes: v.memory.ruled(c)}
	if len(group.routes.Routes) == 0 {
		return group, false
	}
	for _, host := range vs.Spec.GetHosts() {
		group.services = append(group.services, services.routedBy(vs, host)...)
		if !services.names(host) {
			group.hosts = append(group.hosts, host)
		}
	}
	group.services = slices.DeleteFunc(group.services, func(s *mesh.Service) bool {
		return !s.Port(services.port).Protocol.HasRoutes() || !vs.Reaches(s, v.Proxy.Namespace)
	})
	if vs.OfGatewayAPI() { // it is for services alone
		group.hosts = nil
		return group, len(group.services) > 0
	}
	return group, len(group.services) > 0 || services.port == DefaultHTTPPort
}

package memory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// OnServers collects the virtual hosts of a router's route configuration: those that the rules of some
// Gateways make on their servers, and those of requests that are for other servers.
func (m *Memory) OnServers(v view.View, configuration string) *GatewayHosts {
	frontend := v.Mesh.Frontend(v.Proxy)
	servers := frontend.Routes[configuration]
	hosts := &GatewayHosts{recalling: recalling{v, m}, ByName: map[string]*virtualhost.Draft{}, first: servers[0]}
	for _, s := range servers {
		hosts.add(s)
	}
	hosts.redirect(frontend.Misdirected(configuration))
	return hosts
}

// GatewayHosts collects virtual hosts. Rules for the same host add their routes, the older rules
// first.
type GatewayHosts struct {
	recalling

	ByName map[string]*virtualhost.Draft

	first *mesh.Server
}

// redirect tells clients to ask elsewhere for the hosts of other servers. The server's own are not
// others', whether a rule is for them or not.
func (h *GatewayHosts) redirect(m mesh.Misdirected) {
	for _, name := range m.Own {
		if h.ByName[name] == nil {
			h.host(name, h.first).Refuses = true
		}
	}
	for _, name := range m.Hosts {
		if h.ByName[name] == nil {
			h.host(name, h.first).Routes = virtualhost.Misdirected
		}
	}
}

func (h *GatewayHosts) add(s *mesh.Server) {
	for _, vs := range h.Mesh.VirtualServicesOf(s.Gateway, h.Proxy.Namespace) {
		h.bind(s, vs, s.HostsFor(vs))
	}
	if s.Spec.GetTls().GetHttpsRedirect() {
		for _, host := range s.Hosts {
			h.host(host.Name, s)
		}
	}
}

// bind adds the routes of a rule to some of its hosts on a server.
func (h *GatewayHosts) bind(s *mesh.Server, vs *mesh.VirtualService, names []string) {
	if len(names) == 0 {
		return
	}
	routes := h.routes(s, vs)
	if len(routes.Routes) == 0 {
		return
	}
	for _, name := range names {
		host := h.host(name, s)
		host.Routes = append(host.Routes, routes)
	}
}

// host finds or makes the virtual host for a name. If one of its servers redirects to https, all
// requests for the host are redirected.
func (h *GatewayHosts) host(name string, s *mesh.Server) *virtualhost.Draft {
	host := h.ByName[name]
	if host == nil {
		host = &virtualhost.Draft{Name: naming.HostPort(name, s.Spec.GetPort().GetNumber()), Domains: []string{naming.AsHost(name)}}
		h.ByName[name] = host
	}
	host.OnlyByTLS = host.OnlyByTLS || s.Spec.GetTls().GetHttpsRedirect()
	return host
}

// routes returns those of a rule on a server. Servers that are alike share them.
func (h *GatewayHosts) routes(s *mesh.Server, vs *mesh.VirtualService) *virtualhost.List {
	return h.memory.ruled(onServer(h.View, s, vs))
}

// onServer is the context of a rule's routes on a server.
func onServer(v view.View, s *mesh.Server, vs *mesh.VirtualService) route.Context {
	return route.Context{
		View: v, Rule: vs, Port: s.Spec.GetPort().GetNumber(), Gateways: []string{s.Gateway}, TLS: s.Spec.GetTls() != nil, Shows: s.Shows, Service: v.Scope.Service,
	}
}

// List returns the hosts in the order of their names. If there are none, it returns one that
// answers 404 to everything.
func (h *GatewayHosts) List() []virtualhost.Draft {
	if len(h.ByName) == 0 {
		return []virtualhost.Draft{{Name: naming.HostPort("blackhole", h.first.Spec.GetPort().GetNumber()), Domains: []string{"*"}, Refuses: true}}
	}
	var out []virtualhost.Draft
	places := map[alike][]int{}
	for _, name := range slices.SortedFunc(maps.Keys(h.ByName), narrowerFirst) {
		host := *h.ByName[name]
		key := alike{host.First(), host.OnlyByTLS, host.Refuses}
		like := slices.IndexFunc(places[key], func(i int) bool { return slices.Equal(out[i].Routes, host.Routes) })
		if like >= 0 {
			at := places[key][like]
			out[at].Domains = append(out[at].Domains, host.Domains...)
			continue
		}
		places[key] = append(places[key], len(out))
		out = append(out, host)
	}
	slices.SortStableFunc(out, virtualhost.Draft.Compare)
	return out
}

// alike is what hosts with the very same routes have in common. Sent as one host, the routes cost
// Envoy once.
type alike struct {
	first     *virtualhost.List
	onlyByTLS bool
	refuses   bool
}

// narrowerFirst orders hosts as Istio does, which names a host for several by its first.
func narrowerFirst(a, b string) int { return cmp.Or(hostname.NarrowerFirst(a, b), cmp.Compare(a, b)) }

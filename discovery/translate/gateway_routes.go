package translate

import (
	"cmp"
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// gatewayRoute has the hosts that the servers behind a route configuration and the rules of their Gateways have in common.
func (v view) gatewayRoute(name string) *routev3.RouteConfiguration {
	servers := v.mesh.Frontend(v.proxy).Routes[name]
	hosts := gatewayHosts{view: v, byName: map[string]*routev3.VirtualHost{}, made: map[madeRoutes][]*routev3.Route{}}
	for _, s := range servers {
		hosts.add(s)
	}
	return &routev3.RouteConfiguration{
		Name:                           name,
		VirtualHosts:                   hosts.list(servers[0]),
		ValidateClusters:               no,
		MaxDirectResponseBodySizeBytes: maxDirectResponse,
		IgnorePortInHostMatching:       true,
	}
}

// gatewayHosts collects virtual hosts. Rules for the same host add their routes, the older ones first.
type gatewayHosts struct {
	view

	byName map[string]*routev3.VirtualHost
	made   map[madeRoutes][]*routev3.Route
}

// madeRoutes is what the routes of a rule are made for.
type madeRoutes struct {
	gateway string
	port    uint32
	vs      *mesh.VirtualService
	tls     bool
}

func (h *gatewayHosts) add(s *mesh.Server) {
	for _, vs := range h.mesh.VirtualServicesOf(s.Gateway, h.proxy.Namespace) {
		names := s.HostsFor(vs)
		if len(names) == 0 {
			continue
		}
		routes := h.routes(s, vs)
		if len(routes) == 0 {
			continue
		}
		for _, name := range names {
			host := h.host(name, s)
			host.Routes = append(host.Routes, routes...)
		}
	}
	if s.Spec.GetTls().GetHttpsRedirect() {
		for _, host := range s.Hosts {
			h.host(host.Name, s)
		}
	}
}

// host finds or makes the virtual host for a name. Where one of its servers redirects to https, all requests for the host
// are redirected.
func (h *gatewayHosts) host(name string, s *mesh.Server) *routev3.VirtualHost {
	host := h.byName[name]
	if host == nil {
		host = &routev3.VirtualHost{
			Name: hostPort(name, s.Spec.GetPort().GetNumber()), Domains: []string{asHost(name)},
			IncludeRequestAttemptCount: h.countsAttempts(),
		}
		h.byName[name] = host
	}
	if s.Spec.GetTls().GetHttpsRedirect() {
		host.RequireTls = routev3.VirtualHost_ALL
	}
	return host
}

// routes are those of a rule on a server; servers that are alike share them.
func (h *gatewayHosts) routes(s *mesh.Server, vs *mesh.VirtualService) []*routev3.Route {
	key := madeRoutes{s.Gateway, s.Spec.GetPort().GetNumber(), vs, s.Spec.GetTls() != nil}
	routes, made := h.made[key]
	if !made {
		c := routeContext{view: h.view, vs: vs, port: key.port, gateways: []string{key.gateway}, tls: key.tls, service: h.scope.Service}
		routes = c.routes()
		h.made[key] = routes
	}
	return routes
}

// list has the hosts in the order of their names. Where there are none, everything is answered by 404.
func (h *gatewayHosts) list(first *mesh.Server) []*routev3.VirtualHost {
	if len(h.byName) == 0 {
		return []*routev3.VirtualHost{{Name: hostPort("blackhole", first.Spec.GetPort().GetNumber()), Domains: []string{"*"}}}
	}
	var out []*routev3.VirtualHost
	for _, name := range slices.SortedFunc(maps.Keys(h.byName), narrowerFirst) {
		host := h.byName[name]
		if like := slices.IndexFunc(out, func(other *routev3.VirtualHost) bool { return alike(host, other) }); like >= 0 {
			out[like].Domains = append(out[like].Domains, host.GetDomains()...)
		} else {
			out = append(out, host)
		}
	}
	for _, host := range out {
		host.Routes = catchAllLast(host.GetRoutes())
	}
	slices.SortStableFunc(out, func(a, b *routev3.VirtualHost) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// alike reports whether two hosts have the very same routes: sent once, they cost Envoy once.
func alike(a, b *routev3.VirtualHost) bool {
	return a.GetRequireTls() == b.GetRequireTls() && slices.Equal(a.GetRoutes(), b.GetRoutes())
}

// catchAllLast keeps the order of routes but for those that match any request: the routes of another rule after them are
// to be reached.
func catchAllLast(routes []*routev3.Route) []*routev3.Route {
	var specific, all []*routev3.Route
	for _, r := range routes {
		if isCatchAll(r.GetMatch()) {
			all = append(all, r)
		} else {
			specific = append(specific, r)
		}
	}
	return append(specific, all...)
}

// narrowerFirst orders hosts as Istio does where one stands for several in a name: wildcards last, the longer first.
func narrowerFirst(a, b string) int {
	if mesh.IsWildcard(a) != mesh.IsWildcard(b) {
		if mesh.IsWildcard(a) {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}

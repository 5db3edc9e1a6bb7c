package translate

import (
	"cmp"
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// hostsOfServers are those that the servers behind a route configuration and the rules of their Gateways have in common.
func (v view) hostsOfServers(name string) []virtualHost {
	servers := v.mesh.Frontend(v.proxy).Routes[name]
	return v.gatewayHosts(servers).list(servers[0])
}

func (v view) gatewayHosts(servers []*mesh.Server) *gatewayHosts {
	hosts := &gatewayHosts{view: v, byName: map[string]*virtualHost{}}
	for _, s := range servers {
		hosts.add(s)
	}
	return hosts
}

// gatewayHosts collects virtual hosts. Rules for the same host add their routes, the older ones first.
type gatewayHosts struct {
	view

	byName map[string]*virtualHost
}

func (h *gatewayHosts) add(s *mesh.Server) {
	for _, vs := range h.mesh.VirtualServicesOf(s.Gateway, h.proxy.Namespace) {
		h.bind(s, vs, s.HostsFor(vs))
	}
	if s.Spec.GetTls().GetHttpsRedirect() {
		for _, host := range s.Hosts {
			h.host(host.Name, s)
		}
	}
}

// bind adds the routes of a rule to some of its hosts on a server.
func (h *gatewayHosts) bind(s *mesh.Server, vs *mesh.VirtualService, names []string) {
	if len(names) == 0 {
		return
	}
	routes := h.routes(s, vs)
	if len(routes.routes) == 0 {
		return
	}
	for _, name := range names {
		host := h.host(name, s)
		host.routes = append(host.routes, routes)
	}
}

// host finds or makes the virtual host for a name. Where one of its servers redirects to https, all requests for the host
// are redirected.
func (h *gatewayHosts) host(name string, s *mesh.Server) *virtualHost {
	host := h.byName[name]
	if host == nil {
		host = &virtualHost{name: hostPort(name, s.Spec.GetPort().GetNumber()), domains: []string{asHost(name)}}
		h.byName[name] = host
	}
	host.onlyByTLS = host.onlyByTLS || s.Spec.GetTls().GetHttpsRedirect()
	return host
}

// routes are those of a rule on a server; servers that are alike share them.
func (h *gatewayHosts) routes(s *mesh.Server, vs *mesh.VirtualService) *routeList {
	return h.memory.ruled(h.onServer(s, vs))
}

// onServer is what the routes of a rule on a server are made in.
func (v view) onServer(s *mesh.Server, vs *mesh.VirtualService) routeContext {
	return routeContext{
		view: v, vs: vs, port: s.Spec.GetPort().GetNumber(), gateways: []string{s.Gateway}, tls: s.Spec.GetTls() != nil, service: v.scope.Service,
	}
}

// list has the hosts in the order of their names. Where there are none, everything is answered by 404.
func (h *gatewayHosts) list(first *mesh.Server) []virtualHost {
	if len(h.byName) == 0 {
		return []virtualHost{{name: hostPort("blackhole", first.Spec.GetPort().GetNumber()), domains: []string{"*"}, refuses: true}}
	}
	var out []virtualHost
	places := map[alike][]int{}
	for _, name := range slices.SortedFunc(maps.Keys(h.byName), narrowerFirst) {
		host := *h.byName[name]
		key := alike{host.first(), host.onlyByTLS}
		like := slices.IndexFunc(places[key], func(i int) bool { return slices.Equal(out[i].routes, host.routes) })
		if like >= 0 {
			at := places[key][like]
			out[at].domains = append(out[at].domains, host.domains...)
			continue
		}
		places[key] = append(places[key], len(out))
		out = append(out, host)
	}
	slices.SortStableFunc(out, virtualHost.compare)
	return out
}

// alike is what hosts have in common that may have the very same routes: sent once, they cost Envoy once.
type alike struct {
	first     *routeList
	onlyByTLS bool
}

func (h virtualHost) first() *routeList {
	if len(h.routes) == 0 {
		return nil
	}
	return h.routes[0]
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

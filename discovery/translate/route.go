package translate

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Routes returns every route configuration that the listeners of a proxy ask for.
func Routes(m *mesh.Mesh, p *mesh.Proxy) []*routev3.RouteConfiguration { return ViewOf(m, p).Routes() }

// Routes are those of Routes.
func (s View) Routes() []*routev3.RouteConfiguration {
	v := s.remembering()
	names := route.Names(v.View)
	out := make([]*routev3.RouteConfiguration, len(names))
	for i, name := range names {
		out[i] = v.route(name)
	}
	return out
}

func (v recalling) route(full string) *routev3.RouteConfiguration {
	whole := route.Configuration(v.View, full)
	for _, h := range v.hosts(full) {
		whole.VirtualHosts = append(whole.VirtualHosts, h.Message(v.CountsAttempts()))
	}
	return whole
}

// hosts are the virtual hosts of a route configuration.
func (v recalling) hosts(full string) []virtualhost.Draft {
	if !v.Sidecar() {
		return v.hostsOfServers(full)
	}
	name := naming.ParseRoute(full)
	egress := route.EgressOf(v.View, name)
	var hosts []virtualhost.Draft
	switch {
	case egress == nil:
	case name.AnyPort(egress):
		hosts = v.virtualHostsOfAllPorts(egress)
	default:
		hosts = v.virtualHosts(egress, name.Port)
	}
	switch {
	case name.Host != "":
		return only(hosts, name.Host)
	case slices.ContainsFunc(hosts, virtualhost.Draft.TakesAll): // Envoy refuses a second one
		return hosts
	default:
		return append(slices.Clip(hosts), virtualhost.Unmatched(v.View))
	}
}

// only keeps the virtual host of one service, for whatever host the requests name: the listener is for it alone.
func only(hosts []virtualhost.Draft, host string) []virtualhost.Draft {
	for _, h := range hosts {
		if slices.Contains(h.Domains, host) {
			h.Domains = []string{"*"}
			return []virtualhost.Draft{h}
		}
	}
	return nil
}

// virtualHosts lists what is reached by HTTP on a port, in the order of their names.
func (v recalling) virtualHosts(egress *mesh.Egress, port uint32) []virtualhost.Draft {
	at := egressPort{slices.Index(v.Scope.Egress, egress), port}
	return v.memory.hostsOn(at, func(p *portHosts) { p.update(v, egress) })
}

// virtualHostsOfAllPorts is for requests that name the port. One that names none means port 80.
func (v recalling) virtualHostsOfAllPorts(egress *mesh.Egress) []virtualhost.Draft {
	var out []virtualhost.Draft
	for _, port := range httpPorts(egress) {
		for _, h := range v.virtualHosts(egress, port) {
			h.Domains = withPort(h.Domains, port)
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, virtualhost.Draft.Compare)
	return out
}

// withPort are domains as requests name them that name the port.
func withPort(plain []string, port uint32) (out []string) {
	for _, domain := range plain {
		if port == defaultHTTPPort {
			out = append(out, domain)
		}
		out = append(out, domain+":"+naming.Number(port))
	}
	return out
}

// httpPorts are those with requests, in ascending order; that of unnamed ports is always one.
func httpPorts(egress *mesh.Egress) []uint32 {
	ports := map[uint32]bool{defaultHTTPPort: true}
	for _, s := range egress.Services {
		for _, port := range s.Ports {
			if port.Protocol.HasRoutes() {
				ports[port.Number] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ports))
}

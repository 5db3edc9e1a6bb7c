package translate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// maxDirectResponse is the largest body that a direct response may have, as in Istio; Envoy's default is 4 KiB.
var maxDirectResponse = u32(1 << 20)

// Routes returns every route configuration that the listeners of a proxy ask for.
func Routes(m *mesh.Mesh, p *mesh.Proxy) []*routev3.RouteConfiguration { return ViewOf(m, p).Routes() }

// Routes are those of Routes.
func (s View) Routes() []*routev3.RouteConfiguration {
	v := s.remembering()
	names := v.routeNames()
	out := make([]*routev3.RouteConfiguration, len(names))
	for i, name := range names {
		out[i] = v.route(name)
	}
	return out
}

// routeNames are those of a router's servers; for a sidecar the ports with HTTP, host:port for listeners that detect HTTP for a
// single service, sockets, and the proxy port's.
func (v view) routeNames() []string {
	if !v.sidecar() {
		return slices.Sorted(maps.Keys(v.mesh.Frontend(v.proxy).Routes))
	}
	names := map[string]bool{}
	if v.httpProxyPort() != 0 {
		names[httpProxyRoute] = true
	}
	for _, egress := range v.scope.Egress {
		for o := range v.outboundPorts(egress) {
			switch {
			case o.port.Protocol.IsHTTP():
				names[sharedRoute(v.shared(o.binding), o.port)] = true
			case o.port.Protocol.IsSniffed():
				for _, address := range v.addressesOf(o) {
					names[v.sniffedRoute(outboundTCP{view: v, service: o.service, port: o.port, address: address})] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// routeName is what a listener asks by: a port, host:port for the one service of a listener that detects its protocol, a socket as
// unix:///path, or the route of the proxy port.
type routeName struct {
	full string
	host string
	port uint32 // 0: requests name the port themselves
}

func parseRouteName(full string) routeName {
	if full == httpProxyRoute || mesh.IsSocket(full) {
		return routeName{full: full}
	}
	host, text, forOneService := cutLast(full, ":")
	if !forOneService {
		host, text = "", full
	}
	port, _ := strconv.ParseUint(text, 10, 32) // routeNames made it
	return routeName{full: full, host: host, port: uint32(port)}
}

// egressOf finds the egress listener that a route is for: the one with its port or its socket, else the one for all ports.
func (v view) egressOf(name routeName) *mesh.Egress {
	for _, egress := range v.scope.Egress {
		switch {
		case egress.Port == nil:
			return egress
		case egress.Port.Number != name.port:
		case name.port != 0 || egress.Bind == name.full:
			return egress
		}
	}
	return nil
}

func (v view) route(full string) *routev3.RouteConfiguration {
	whole := v.configuration(full)
	for _, h := range v.hosts(full) {
		whole.VirtualHosts = append(whole.VirtualHosts, h.message(v.countsAttempts()))
	}
	return whole
}

// configuration is a route configuration without its virtual hosts.
func (v view) configuration(full string) *routev3.RouteConfiguration {
	name := parseRouteName(full)
	return &routev3.RouteConfiguration{
		Name:                           full,
		ValidateClusters:               no,
		MaxDirectResponseBodySizeBytes: maxDirectResponse,
		IgnorePortInHostMatching:       !v.sidecar() || !name.anyPort(v.egressOf(name)),
	}
}

// anyPort tells whether requests name the port that they are for.
func (n routeName) anyPort(egress *mesh.Egress) bool {
	return n.port == 0 || egress != nil && egress.AnyPort()
}

// hosts are the virtual hosts of a route configuration.
func (v view) hosts(full string) []virtualHost {
	if !v.sidecar() {
		return v.hostsOfServers(full)
	}
	name := parseRouteName(full)
	egress := v.egressOf(name)
	var hosts []virtualHost
	switch {
	case egress == nil:
	case name.anyPort(egress):
		hosts = v.virtualHostsOfAllPorts(egress)
	default:
		hosts = v.virtualHosts(egress, name.port)
	}
	switch {
	case name.host != "":
		return only(hosts, name.host)
	case slices.ContainsFunc(hosts, virtualHost.takesAll): // Envoy refuses a second one
		return hosts
	default:
		return append(slices.Clip(hosts), v.unmatchedHTTP())
	}
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// takesAll reports whether a virtual host is for any host, as that of a ServiceEntry for "*" is.
func (h virtualHost) takesAll() bool { return slices.Contains(h.domains, "*") }

// only keeps the virtual host of one service, for whatever host the requests name: the listener is for it alone.
func only(hosts []virtualHost, host string) []virtualHost {
	for _, h := range hosts {
		if slices.Contains(h.domains, host) {
			h.domains = []string{"*"}
			return []virtualHost{h}
		}
	}
	return nil
}

// virtualHosts lists what is reached by HTTP on a port, in the order of their names.
func (v view) virtualHosts(egress *mesh.Egress, port uint32) []virtualHost {
	at := egressPort{slices.Index(v.scope.Egress, egress), port}
	return v.memory.hostsOn(at, func(p *portHosts) { p.update(v, egress) })
}

// virtualHostsOfAllPorts is for requests that name the port. One that names none means port 80.
func (v view) virtualHostsOfAllPorts(egress *mesh.Egress) []virtualHost {
	var out []virtualHost
	for _, port := range httpPorts(egress) {
		for _, h := range v.virtualHosts(egress, port) {
			h.domains = withPort(h.domains, port)
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, virtualHost.compare)
	return out
}

// withPort are domains as requests name them that name the port.
func withPort(plain []string, port uint32) (out []string) {
	for _, domain := range plain {
		if port == defaultHTTPPort {
			out = append(out, domain)
		}
		out = append(out, domain+":"+number(port))
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

// unmatchedHTTP is for requests whose host nobody knows: on to where the client meant to connect, or refused.
func (v view) unmatchedHTTP() virtualHost {
	name := blockAll
	route := &routev3.Route{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}}}
	if v.scope.AllowsAny() {
		cluster := v.unknownCluster()
		name = allowAny
		if v.resolvesUnknown() {
			name, cluster = allowAnyDynamic, UnknownHostsCluster
		}
		action := &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}, AppendXForwardedHost: v.keepsHost()}
		setTimeout(action, noDuration)
		route.Action = &routev3.Route_Route{Route: action}
	}
	route.Name, route.Match = name, &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	return virtualHost{name: name, domains: []string{"*"}, routes: []*routeList{{routes: []*routev3.Route{route}}}}
}

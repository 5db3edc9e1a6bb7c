package translate

import (
	"cmp"
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
func Routes(m *mesh.Mesh, p *mesh.Proxy) []*routev3.RouteConfiguration {
	v := newView(m, p)
	names := v.routeNames()
	out := make([]*routev3.RouteConfiguration, len(names))
	for i, name := range names {
		out[i] = v.route(name)
	}
	return out
}

// Route returns one route configuration by the name that a listener asks for, or nil if no listener of the proxy does.
func Route(m *mesh.Mesh, p *mesh.Proxy, name string) *routev3.RouteConfiguration {
	v := newView(m, p)
	if !slices.Contains(v.routeNames(), name) {
		return nil
	}
	return v.route(name)
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
	if !v.sidecar() {
		return v.gatewayRoute(full)
	}
	name := parseRouteName(full)
	egress := v.egressOf(name)
	anyPort := name.port == 0 || egress != nil && egress.AnyPort()
	var hosts []*routev3.VirtualHost
	switch {
	case egress == nil:
	case anyPort:
		hosts = v.virtualHostsOfAllPorts(egress)
	default:
		hosts = v.virtualHosts(egress, name.port)
	}
	switch {
	case name.host != "":
		hosts = only(hosts, name.host)
	case !slices.ContainsFunc(hosts, takesAll): // Envoy refuses a second one
		hosts = append(hosts, v.unmatchedHTTP())
	}
	return &routev3.RouteConfiguration{
		Name:                           full,
		VirtualHosts:                   hosts,
		ValidateClusters:               no,
		MaxDirectResponseBodySizeBytes: maxDirectResponse,
		IgnorePortInHostMatching:       !anyPort,
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
func takesAll(vh *routev3.VirtualHost) bool { return slices.Contains(vh.GetDomains(), "*") }

// only keeps the virtual host of one service, for whatever host the requests name: the listener is for it alone.
func only(hosts []*routev3.VirtualHost, host string) []*routev3.VirtualHost {
	for _, vh := range hosts {
		if slices.Contains(vh.GetDomains(), host) {
			vh.Domains = []string{"*"}
			return []*routev3.VirtualHost{vh}
		}
	}
	return nil
}

// virtualHosts lists what is reached by HTTP on a port, in the order of their names.
func (v view) virtualHosts(egress *mesh.Egress, port uint32) []*routev3.VirtualHost {
	b := hostBuilder{view: v, port: port, names: map[string]bool{}, domains: map[string]bool{}, known: map[string]bool{}}
	b.add(v.routeGroups(egress, port))
	slices.SortStableFunc(b.out, func(x, y *routev3.VirtualHost) int { return cmp.Compare(x.GetName(), y.GetName()) })
	return b.out
}

// virtualHostsOfAllPorts is for requests that name the port. One that names none means port 80.
func (v view) virtualHostsOfAllPorts(egress *mesh.Egress) []*routev3.VirtualHost {
	var out []*routev3.VirtualHost
	for _, port := range httpPorts(egress) {
		for _, vh := range v.virtualHosts(egress, port) {
			plain := vh.GetDomains()
			vh.Domains = nil
			for _, domain := range plain {
				if port == defaultHTTPPort {
					vh.Domains = append(vh.Domains, domain)
				}
				vh.Domains = append(vh.Domains, domain+":"+number(port))
			}
			out = append(out, vh)
		}
	}
	slices.SortStableFunc(out, func(x, y *routev3.VirtualHost) int { return cmp.Compare(x.GetName(), y.GetName()) })
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
func (v view) unmatchedHTTP() *routev3.VirtualHost {
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
	return &routev3.VirtualHost{
		Name: name, Domains: []string{"*"}, Routes: []*routev3.Route{route}, IncludeRequestAttemptCount: v.countsAttempts(),
	}
}

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

// Routes returns every route configuration that the listeners of a sidecar ask for.
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

// routeNames are the ports with HTTP, and host:port for listeners that detect HTTP for a single service.
func (v view) routeNames() []string {
	if !v.sidecar() {
		return nil
	}
	names := map[string]bool{}
	plan := outboundPlan{view: v}
	for _, egress := range v.scope.Egress {
		for _, s := range egress.Services {
			for _, port := range s.Ports {
				switch {
				case !v.canBind(port):
				case port.Protocol.IsHTTP():
					names[number(port.Number)] = true
				case port.Protocol.IsSniffed():
					for _, address := range plan.addressesOf(s) {
						names[plan.sniffedRoute(outboundTCP{view: v, service: s, port: port, address: address})] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// route is named by a port, or by host:port for the one service of a listener that detects its protocol.
func (v view) route(name string) *routev3.RouteConfiguration {
	host, portText, forOneService := cutLast(name, ":")
	if !forOneService {
		portText = name
	}
	port, _ := strconv.ParseUint(portText, 10, 32) // routeNames made it
	hosts := v.virtualHosts(uint32(port))
	switch {
	case forOneService:
		hosts = only(hosts, host)
	case !slices.ContainsFunc(hosts, takesAll): // Envoy refuses a second one
		hosts = append(hosts, v.unmatchedHTTP())
	}
	return &routev3.RouteConfiguration{
		Name:                           name,
		VirtualHosts:                   hosts,
		ValidateClusters:               no,
		MaxDirectResponseBodySizeBytes: maxDirectResponse,
		IgnorePortInHostMatching:       true,
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
func (v view) virtualHosts(port uint32) []*routev3.VirtualHost {
	b := hostBuilder{view: v, port: port, names: map[string]bool{}, domains: map[string]bool{}, known: map[string]bool{}}
	for _, egress := range v.scope.Egress {
		b.add(v.routeGroups(egress, port))
	}
	slices.SortStableFunc(b.out, func(x, y *routev3.VirtualHost) int { return cmp.Compare(x.GetName(), y.GetName()) })
	return b.out
}

// unmatchedHTTP is for requests whose host nobody knows: on to where the client meant to connect, or refused.
func (v view) unmatchedHTTP() *routev3.VirtualHost {
	name := blockAll
	route := &routev3.Route{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}}}
	if v.scope.AllowsAny() {
		name = allowAny
		action := &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: PassthroughCluster}}
		setTimeout(action, noDuration)
		route.Action = &routev3.Route_Route{Route: action}
	}
	route.Name, route.Match = name, &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	return &routev3.VirtualHost{
		Name: name, Domains: []string{"*"}, Routes: []*routev3.Route{route}, IncludeRequestAttemptCount: true,
	}
}

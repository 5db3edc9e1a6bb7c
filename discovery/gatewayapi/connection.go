package gatewayapi

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
)

// connections converts where the rules of a TCPRoute, a TLSRoute or a UDPRoute send: a list for each
// rule. A rule whose backends all have no weight leads to no host, so that nobody answers its
// connections, or its datagrams.
func (c *conversion) connections() (out [][]*networking.RouteDestination) {
	for i, rule := range c.route.spec.Rules {
		if i > 0 && c.route.Resource.Kind == KindUDPRoute {
			c.drop(i, "nothing tells datagrams apart: the first rule has them all")
			c.report(fmt.Sprintf("spec.rules[%d]", i), "is left out: nothing tells datagrams apart, and the first rule has them all")
			continue
		}
		indices, weights := weigh(rule.BackendRefs)
		var to []*networking.RouteDestination
		for n, at := range indices {
			path := fmt.Sprintf("spec.rules[%d].backendRefs[%d]", i, at)
			to = append(to, &networking.RouteDestination{Destination: c.destination(rule.BackendRefs[at], path), Weight: weights[n]})
		}
		if len(to) == 0 {
			to = []*networking.RouteDestination{{Destination: &networking.Destination{}}}
		}
		out = append(out, to)
	}
	return out
}

// tcp writes connections to a port; 0 is any.
func tcp(connections [][]*networking.RouteDestination, port uint32) (out []*networking.TCPRoute) {
	for _, to := range connections {
		route := &networking.TCPRoute{Route: to}
		if port != 0 {
			route.Match = []*networking.L4MatchAttributes{{Port: port}}
		}
		out = append(out, route)
	}
	return out
}

// tls writes connections to a port, 0 being any, that ask for a name.
func tls(connections [][]*networking.RouteDestination, port uint32, name string) (out []*networking.TLSRoute) {
	for _, to := range connections {
		out = append(out, &networking.TLSRoute{Match: []*networking.TLSMatchAttributes{{SniHosts: []string{name}, Port: port}}, Route: to})
	}
	return out
}

// Package datagram makes what gateways do with UDP: of each socket of a client they make a session,
// which goes to one endpoint.
package datagram

import (
	"cmp"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/authorization"
	"github.com/pgmesh/pgmesh/discovery/translate/matching"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Proxy sends datagrams that came in where a rule says, unless a policy refuses them. The rule for the
// first backend says how long a session lasts without datagrams, and whether all of a client's go to
// one endpoint.
func Proxy(v view.View, e *mesh.Entrance) *listenerv3.ListenerFilter {
	routes, port := e.To, e.Server.Spec.GetPort().GetNumber()
	rule := upstream.SpecOf(v.Scope.DestinationRule(v.Proxy, routes[0].GetDestination().GetHost())).GetTrafficPolicy()
	proxy := &udpproxyv3.UdpProxyConfig{
		StatPrefix: e.Rule.Resource.Name + "." + e.Rule.Resource.Namespace,
		RouteSpecifier: &udpproxyv3.UdpProxyConfig_Matcher{
			Matcher: matching.If(authorization.RefusedDatagrams(v), to(naming.BlackHoleCluster), routed(v, routes, port)).Matcher(),
		},
		IdleTimeout: rule.GetConnectionPool().GetTcp().GetIdleTimeout(),
	}
	if rule.GetLoadBalancer().GetConsistentHash().GetUseSourceIp() {
		proxy.HashPolicies = []*udpproxyv3.UdpProxyConfig_HashPolicy{{
			PolicySpecifier: &udpproxyv3.UdpProxyConfig_HashPolicy_SourceIp{SourceIp: true},
		}}
	}
	return message.ListenerFilter("envoy.filters.udp_listener.udp_proxy", proxy)
}

// routed divides datagrams among the backends. A single one has all, whatever its weight.
func routed(v view.View, routes []*networking.RouteDestination, port uint32) matching.Choice {
	backends := make([]backend, len(routes))
	for i, r := range routes {
		backends[i] = backend{uint64(cmp.Or(r.GetWeight(), 1)), to(clusterOf(v, r.GetDestination(), port))}
	}
	return divided(backends)
}

func clusterOf(v view.View, d *networking.Destination, port uint32) string {
	switch service := v.Scope.Service(d.GetHost()); {
	case d.GetHost() == "":
		return naming.UnknownService
	case d.GetPort() != nil:
		port = d.GetPort().GetNumber()
	case service != nil && len(service.Datagrams) == 1:
		port = service.Datagrams[0].Number
	}
	return naming.DatagramCluster(port, d.GetHost())
}

func to(cluster string) matching.Choice {
	return matching.Do("route", &udpproxyv3.Route{Cluster: cluster})
}

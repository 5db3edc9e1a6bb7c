package translate

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// outboundTCP is one port of a service, listened for at one address.
type outboundTCP struct {
	filtering

	egress  *mesh.Egress
	service *mesh.Service
	port    *mesh.Port
	address binding.Address
}

func (t outboundTCP) chains() []chain {
	if t.port.Protocol.IsTLS() {
		return t.tlsChains()
	}
	return t.tcpChains()
}

// tcpChains follows the rules in their order; the first that is for any destination ends them.
func (t outboundTCP) tcpChains() []chain {
	var out []chain
	for _, vs := range t.virtualServices() {
		for _, route := range vs.Spec.GetTcp() {
			if len(route.GetRoute()) == 0 {
				continue
			}
			subnets, all := t.matches(route.GetMatch())
			c := chain{ranges: t.address.Ranges, from: vs.Resource, filters: t.routed(route.GetRoute(), vs, t.port)}
			if all {
				return append(out, c)
			}
			if len(subnets) > 0 {
				c.ranges = subnets
				out = append(out, c)
			}
		}
	}
	return append(out, chain{ranges: t.address.Ranges, filters: t.direct()})
}

// matches returns the destinations that the matches for this proxy and port name, and whether one of them is for any.
func (t outboundTCP) matches(list []*networking.L4MatchAttributes) (subnets []string, all bool) {
	if len(list) == 0 {
		return nil, true
	}
	for _, m := range list {
		if !t.Connects(m, view.OnSidecars, t.port.Number) {
			continue
		}
		if len(m.GetDestinationSubnets()) == 0 {
			return nil, true
		}
		subnets = append(subnets, m.GetDestinationSubnets()...)
	}
	return subnets, false
}

// tlsChains tells connections apart by the server name that they ask for.
func (t outboundTCP) tlsChains() []chain {
	var out []chain
	seen := map[string]bool{}
	for _, vs := range t.virtualServices() {
		for _, route := range vs.Spec.GetTls() {
			for _, m := range route.GetMatch() {
				key := strings.Join(m.GetSniHosts(), ",") + "|" + strings.Join(m.GetDestinationSubnets(), ",")
				if len(route.GetRoute()) == 0 || seen[key] || !t.Connects(m, view.OnSidecars, t.port.Number) {
					continue
				}
				seen[key] = true
				ranges := t.address.Ranges
				if len(m.GetDestinationSubnets()) > 0 {
					ranges = m.GetDestinationSubnets()
				}
				out = append(out, chain{names: m.GetSniHosts(), ranges: ranges, from: vs.Resource, filters: t.routed(route.GetRoute(), vs, t.port)})
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	return t.directTLS()
}

// directTLS goes to the service itself. Where services share an address, which Istio gives to the oldest, each is found by
// its name, and the oldest also without one.
func (t outboundTCP) directTLS() []chain {
	direct := chain{names: t.serverNames(), ranges: t.address.Ranges, filters: t.direct()}
	if !t.address.Shared || len(direct.names) > 0 {
		return []chain{direct}
	}
	named := direct
	named.names = []string{t.service.Hostname}
	return []chain{named, direct}
}

// serverNames are needed where the address alone does not tell the service, and where the name is to be resolved.
func (t outboundTCP) serverNames() []string {
	if t.address.Workload {
		return nil
	}
	if upstream.IsDynamic(t.service) || len(t.address.Ranges) > 0 || t.address.Binds[0] == t.Wildcards()[0] {
		return []string{t.service.Hostname}
	}
	return nil
}

func (t outboundTCP) virtualServices() []*mesh.VirtualService {
	var out []*mesh.VirtualService
	for _, vs := range t.egress.VirtualServices {
		if vs.Serves(t.service.Hostname) {
			out = append(out, vs)
		}
	}
	return out
}

// direct sends connections to the service itself.
func (t outboundTCP) direct() []*listenerv3.Filter {
	port := t.port.Number
	if len(t.service.Ports) == 1 {
		port = t.service.Ports[0].Number
	}
	cluster := naming.Cluster(port, "", t.service.Hostname)
	named := &mesh.Port{Number: t.port.Number} // Istio leaves the port's name out of these statistics, and dashboards have them so
	proxy := tcpCalled(upstream.DestinationStat(t.View, cluster, t.service.Hostname, "", named), cluster)
	t.applyRule(proxy, t.Scope.DestinationRule(t.Proxy, t.service.Hostname), "")
	if upstream.IsDynamic(t.service) && t.port.Protocol.IsTLS() {
		return []*listenerv3.Filter{resolveConnections(t.View, t.service, t.port.Number), tcpFilter(proxy)}
	}
	return tcpFilters(t.port.Protocol, proxy)
}

// routed sends connections where a rule says, the first destination's own rule setting the timeouts.
func (v filtering) routed(routes []*networking.RouteDestination, vs *mesh.VirtualService, port *mesh.Port) []*listenerv3.Filter {
	first := routes[0].GetDestination()
	rule := v.Scope.DestinationRule(v.Proxy, first.GetHost())
	if len(routes) == 1 {
		cluster := destinationCluster(v.View, first, port.Number)
		stat := cluster
		if v.Scope.Service(first.GetHost()) != nil {
			stat = upstream.DestinationStat(v.View, cluster, first.GetHost(), first.GetSubset(), port)
		}
		proxy := tcpCalled(stat, cluster)
		v.applyRule(proxy, rule, first.GetSubset())
		return tcpFilters(port.Protocol, proxy)
	}
	weighted := slices.DeleteFunc(slices.Clone(routes), func(r *networking.RouteDestination) bool { return r.GetWeight() <= 0 })
	proxy := tcpWeighted(v.View, vs.Resource.Name+"."+vs.Resource.Namespace, weighted, port.Number)
	v.applyRule(proxy, rule, "")
	return tcpFilters(port.Protocol, proxy)
}

package translate

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// tcpAddress is one address of a TCP service: what to bind to, and, for a range, which destinations it is for.
type tcpAddress struct {
	binds  []string
	ranges []string
	// workload tells that the address is that of a single workload, which says what is wanted.
	workload bool
	// shared tells that all services are listened for there, so that it says nothing.
	shared bool
}

func (v view) tcpAddress(address string) tcpAddress {
	switch {
	case strings.Contains(address, "/"):
		return tcpAddress{binds: v.wildcards(), ranges: []string{address}}
	case address == mesh.Unspecified:
		return tcpAddress{binds: v.wildcards()}
	default:
		return tcpAddress{binds: []string{address}}
	}
}

// workloadAddresses are those at which clients of a service connect to its workloads themselves; the proxy's own is left out.
// They share a listener where its chains can tell them apart. They cannot where the protocol is detected: Envoy looks at
// addresses before it looks at protocols.
func (v view) workloadAddresses(o outboundPort) []tcpAddress {
	var out []tcpAddress
	for _, e := range o.service.OnPort(o.port.Number) {
		switch {
		case !mesh.IsAddress(e.Address) || e.Address == v.proxy.Addresses[0]:
		case o.port.Protocol.IsSniffed():
			out = append(out, tcpAddress{binds: []string{e.Address}, workload: true})
		default:
			out = append(out, tcpAddress{binds: v.wildcards(), ranges: []string{e.Address}, workload: true})
		}
	}
	return out
}

// outboundTCP is one port of a service, listened for at one address.
type outboundTCP struct {
	view

	egress  *mesh.Egress
	service *mesh.Service
	port    *mesh.Port
	address tcpAddress
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
			c := chain{ranges: t.address.ranges, from: vs.Resource, filters: t.routed(route.GetRoute(), vs, t.port)}
			if all {
				return append(out, c)
			}
			if len(subnets) > 0 {
				c.ranges = subnets
				out = append(out, c)
			}
		}
	}
	return append(out, chain{ranges: t.address.ranges, filters: t.direct()})
}

// matches returns the destinations that the matches for this proxy and port name, and whether one of them is for any.
func (t outboundTCP) matches(list []*networking.L4MatchAttributes) (subnets []string, all bool) {
	if len(list) == 0 {
		return nil, true
	}
	for _, m := range list {
		if !t.connects(m, onSidecars, t.port.Number) {
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
				if len(route.GetRoute()) == 0 || seen[key] || !t.connects(m, onSidecars, t.port.Number) {
					continue
				}
				seen[key] = true
				ranges := t.address.ranges
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
	direct := chain{names: t.serverNames(), ranges: t.address.ranges, filters: t.direct()}
	if !t.address.shared || len(direct.names) > 0 {
		return []chain{direct}
	}
	named := direct
	named.names = []string{t.service.Hostname}
	return []chain{named, direct}
}

// serverNames are needed where the address alone does not tell the service, and where the name is to be resolved.
func (t outboundTCP) serverNames() []string {
	if t.address.workload {
		return nil
	}
	if isDynamic(t.service) || len(t.address.ranges) > 0 || t.address.binds[0] == t.wildcards()[0] {
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
	cluster := ClusterName(port, "", t.service.Hostname)
	named := &mesh.Port{Number: t.port.Number} // Istio leaves the port's name out of these statistics, and dashboards have them so
	proxy := tcpCalled(t.destinationStat(cluster, t.service.Hostname, "", named), cluster)
	t.applyRule(proxy, t.scope.DestinationRule(t.proxy, t.service.Hostname), "")
	if isDynamic(t.service) && t.port.Protocol.IsTLS() {
		return []*listenerv3.Filter{t.resolveConnections(t.service, t.port.Number), tcpFilter(proxy)}
	}
	return tcpFilters(t.port.Protocol, proxy)
}

// routed sends connections where a rule says, the first destination's own rule setting the timeouts.
func (v view) routed(routes []*networking.RouteDestination, vs *mesh.VirtualService, port *mesh.Port) []*listenerv3.Filter {
	first := routes[0].GetDestination()
	rule := v.scope.DestinationRule(v.proxy, first.GetHost())
	if len(routes) == 1 {
		cluster := v.destinationCluster(first, port.Number)
		stat := cluster
		if v.scope.Service(first.GetHost()) != nil {
			stat = v.destinationStat(cluster, first.GetHost(), first.GetSubset(), port)
		}
		proxy := tcpCalled(stat, cluster)
		v.applyRule(proxy, rule, first.GetSubset())
		return tcpFilters(port.Protocol, proxy)
	}
	weighted := slices.DeleteFunc(slices.Clone(routes), func(r *networking.RouteDestination) bool { return r.GetWeight() <= 0 })
	proxy := tcpWeighted(vs.Resource.Name+"."+vs.Resource.Namespace, v, weighted, port.Number)
	v.applyRule(proxy, rule, "")
	return tcpFilters(port.Protocol, proxy)
}

package outbound

import (
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// tcpPort is one port of a service, listened for at one address.
type tcpPort struct {
	filter.Context

	egress  *mesh.Egress
	service *mesh.Service
	port    *mesh.Port
	address binding.Address
}

func (t tcpPort) chains() []listener.Chain {
	if t.port.Protocol.IsTLS() {
		return t.byServerName()
	}
	return t.byAddress()
}

// byAddress follows the rules in their order, up to the first that is for any destination.
func (t tcpPort) byAddress() []listener.Chain {
	var out []listener.Chain
	for _, vs := range t.virtualServices() {
		for _, route := range vs.Spec.GetTcp() {
			if len(route.GetRoute()) == 0 {
				continue
			}
			subnets, all := t.matches(route.GetMatch())
			c := listener.Chain{Ranges: t.address.Ranges, From: vs.Source(nil), Filters: t.routed(route.GetRoute(), vs)}
			if all {
				return append(out, c)
			}
			if len(subnets) > 0 {
				c.Ranges = subnets
				out = append(out, c)
			}
		}
	}
	return append(out, listener.Chain{Ranges: t.address.Ranges, Filters: t.direct()})
}

// matches returns the destinations that the matches for this proxy and port name. All tells that
// one of them is for any.
func (t tcpPort) matches(list []*networking.L4MatchAttributes) (subnets []string, all bool) {
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

// byServerName tells connections apart by the server name that they ask for.
func (t tcpPort) byServerName() []listener.Chain {
	var out []listener.Chain
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
				out = append(out, listener.Chain{Names: m.GetSniHosts(), Ranges: ranges, From: vs.Source(nil), Filters: t.routed(route.GetRoute(), vs)})
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	return t.directTLS()
}

// directTLS goes to the service itself. If services share an address, which Istio gives to the
// oldest, each is found by its name, and the oldest also without one.
func (t tcpPort) directTLS() []listener.Chain {
	direct := listener.Chain{Names: t.serverNames(), Ranges: t.address.Ranges, Filters: t.direct()}
	if !t.address.Shared || len(direct.Names) > 0 {
		return []listener.Chain{direct}
	}
	named := direct
	named.Names = []string{t.service.Hostname}
	return []listener.Chain{named, direct}
}

// serverNames are needed if the address alone does not tell the service, or if the name is to be
// resolved.
func (t tcpPort) serverNames() []string {
	if t.address.Workload {
		return nil
	}
	if upstream.IsDynamic(t.service) || len(t.address.Ranges) > 0 || t.address.Binds[0] == t.Wildcards()[0] {
		return []string{t.service.Hostname}
	}
	return nil
}

// routed are the filters of connections that follow a rule, and direct those of others.
func (t tcpPort) routed(to []*networking.RouteDestination, vs *mesh.VirtualService) []*listenerv3.Filter {
	return t.Extended(t.port.Number, t.Routed(to, vs, t.port)...)
}

func (t tcpPort) direct() []*listenerv3.Filter {
	return t.Extended(t.port.Number, t.ToService(t.service, t.port)...)
}

func (t tcpPort) virtualServices() []*mesh.VirtualService {
	var out []*mesh.VirtualService
	for _, vs := range t.egress.VirtualServices {
		if vs.Serves(t.service.Hostname) && vs.Reaches(t.service, t.Proxy.Namespace) {
			out = append(out, vs)
		}
	}
	return out
}

package filter

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	mongoproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/mongo_proxy/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// Refusal refuses connections. As by Istio, they are in no access log.
func Refusal() *listenerv3.Filter { return tcp(refusing()) }

// Refusal refuses connections, and logs them.
func (c Context) Refusal() *listenerv3.Filter {
	proxy := refusing()
	c.logConnections(proxy)
	return tcp(proxy)
}

// Unmatched carries connections to destinations that nobody declared.
func (c Context) Unmatched() []*listenerv3.Filter {
	return c.ToApplication(c.UnknownCluster(), c.UnknownCluster(), mesh.ProtocolTCP)
}

// ToApplication carries connections to a cluster that no rule is for. Statistics may call it by
// another name.
func (c Context) ToApplication(stat, cluster string, protocol mesh.Protocol) []*listenerv3.Filter {
	proxy := to(stat, cluster)
	c.logConnections(proxy)
	proxy.IdleTimeout = idleTimeout(c.View)
	return forProtocol(protocol, proxy)
}

// ToService carries connections to a service itself.
func (c Context) ToService(s *mesh.Service, p *mesh.Port) []*listenerv3.Filter {
	port := p.Number
	if len(s.Ports) == 1 {
		port = s.Ports[0].Number
	}
	cluster := naming.Cluster(port, "", s.Hostname)
	named := &mesh.Port{Number: p.Number} // Istio leaves the port's name out of these statistics, and dashboards have them so
	proxy := to(upstream.DestinationStat(c.View, cluster, s.Hostname, "", named), cluster)
	c.applyRule(proxy, c.Scope.DestinationRule(c.Proxy, s.Hostname), "")
	if upstream.IsDynamic(s) && p.Protocol.IsTLS() {
		return []*listenerv3.Filter{resolveConnections(c.View, s, p.Number), tcp(proxy)}
	}
	return forProtocol(p.Protocol, proxy)
}

// Routed carries connections to where a rule says. The policy of the first destination sets the
// timeouts.
func (c Context) Routed(routes []*networking.RouteDestination, vs *mesh.VirtualService, port *mesh.Port) []*listenerv3.Filter {
	first := routes[0].GetDestination()
	rule := c.Scope.DestinationRule(c.Proxy, first.GetHost())
	if len(routes) == 1 {
		cluster := c.clusterOf(first, port.Number)
		stat := cluster
		if c.Scope.Service(first.GetHost()) != nil {
			stat = upstream.DestinationStat(c.View, cluster, first.GetHost(), first.GetSubset(), port)
		}
		proxy := to(stat, cluster)
		c.applyRule(proxy, rule, first.GetSubset())
		return forProtocol(port.Protocol, proxy)
	}
	weighted := slices.DeleteFunc(slices.Clone(routes), func(r *networking.RouteDestination) bool { return r.GetWeight() <= 0 })
	proxy := c.split(vs.Resource.Name+"."+vs.Resource.Namespace, weighted, port.Number)
	c.applyRule(proxy, rule, "")
	return forProtocol(port.Protocol, proxy)
}

// Passing carries mutual TLS on to an upstream as it came.
func (c Context) Passing(u upstream.Upstream) *listenerv3.Filter {
	proxy := to(upstream.Stat(c.View, u), u.Name())
	c.applyRule(proxy, u.Rule, u.Subset.GetName())
	proxy.TunnelingConfig = nil // the client has made its tunnel
	return tcp(proxy)
}

func to(stat, cluster string) *tcpproxyv3.TcpProxy {
	return &tcpproxyv3.TcpProxy{
		StatPrefix:       stat,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: cluster},
	}
}

func refusing() *tcpproxyv3.TcpProxy { return to(naming.BlackHoleCluster, naming.BlackHoleCluster) }

// split divides connections by weight. If no weight is above zero it refuses them: nobody is to
// have them.
func (c Context) split(stat string, routes []*networking.RouteDestination, port uint32) *tcpproxyv3.TcpProxy {
	if len(routes) == 0 {
		return refusing()
	}
	divided := route.Divide(routes)
	clusters := make([]*tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight, len(routes))
	for i, r := range routes {
		clusters[i] = &tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight{
			Name: c.clusterOf(r.GetDestination(), port), Weight: divided.Share(r.GetWeight()),
		}
	}
	return &tcpproxyv3.TcpProxy{
		StatPrefix: stat,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_WeightedClusters{
			WeightedClusters: &tcpproxyv3.TcpProxy_WeightedCluster{Clusters: clusters},
		},
	}
}

func (c Context) clusterOf(d *networking.Destination, port uint32) string {
	return upstream.Destination(c.View, d, c.Scope.Service(d.GetHost()), port, c.Shows)
}

// forProtocol has MongoDB's connections pass a filter that counts their operations and changes
// nothing.
func forProtocol(protocol mesh.Protocol, proxy *tcpproxyv3.TcpProxy) []*listenerv3.Filter {
	if protocol != mesh.ProtocolMongo {
		return []*listenerv3.Filter{tcp(proxy)}
	}
	counting := message.NetworkFilter("envoy.filters.network.mongo_proxy", &mongoproxyv3.MongoProxy{StatPrefix: proxy.GetStatPrefix()})
	return []*listenerv3.Filter{counting, tcp(proxy)}
}

func tcp(proxy *tcpproxyv3.TcpProxy) *listenerv3.Filter {
	return message.NetworkFilter("envoy.filters.network.tcp_proxy", proxy)
}

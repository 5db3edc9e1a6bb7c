package translate

import (
	"cmp"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	mongoproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/mongo_proxy/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

func tcpTo(cluster string) *tcpproxyv3.TcpProxy { return tcpCalled(cluster, cluster) }

// tcpCalled is for a proxy that statistics have under another name than its cluster's.
func tcpCalled(stat, cluster string) *tcpproxyv3.TcpProxy {
	return &tcpproxyv3.TcpProxy{
		StatPrefix:       stat,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: cluster},
	}
}

// tcpWeighted splits connections. Without any weight above zero they are refused, as nobody is to have them.
func tcpWeighted(v view.View, statPrefix string, routes []*networking.RouteDestination, port uint32) *tcpproxyv3.TcpProxy {
	if len(routes) == 0 {
		return tcpTo(naming.BlackHoleCluster)
	}
	divided := route.Divide(routes)
	clusters := make([]*tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight, len(routes))
	for i, r := range routes {
		clusters[i] = &tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight{
			Name: destinationCluster(v, r.GetDestination(), port), Weight: divided.Share(r.GetWeight()),
		}
	}
	return &tcpproxyv3.TcpProxy{
		StatPrefix: statPrefix,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_WeightedClusters{
			WeightedClusters: &tcpproxyv3.TcpProxy_WeightedCluster{Clusters: clusters},
		},
	}
}

// tcpFilters carries the connections of a protocol. What is MongoDB's passes a filter that counts its operations and changes none.
func tcpFilters(protocol mesh.Protocol, proxy *tcpproxyv3.TcpProxy) []*listenerv3.Filter {
	if protocol != mesh.ProtocolMongo {
		return []*listenerv3.Filter{tcpFilter(proxy)}
	}
	counting := &listenerv3.Filter{
		Name:       "envoy.filters.network.mongo_proxy",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: message.Pack(&mongoproxyv3.MongoProxy{StatPrefix: proxy.GetStatPrefix()})},
	}
	return []*listenerv3.Filter{counting, tcpFilter(proxy)}
}

func tcpFilter(proxy *tcpproxyv3.TcpProxy) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name:       "envoy.filters.network.tcp_proxy",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: message.Pack(proxy)},
	}
}

// applyRule sets what a destination rule says about the client's side of a connection.
func (v filtering) applyRule(proxy *tcpproxyv3.TcpProxy, rule *mesh.DestinationRule, subset string) {
	policy := upstream.SpecOf(rule).GetTrafficPolicy()
	tcp := policy.GetConnectionPool().GetTcp()
	proxy.AccessLog = v.logs
	proxy.IdleTimeout = cmp.Or(tcp.GetIdleTimeout(), idleTimeout(v.View))
	proxy.MaxDownstreamConnectionDuration = tcp.GetMaxConnectionDuration()
	if hashesSource(upstream.SpecOf(rule), subset) {
		proxy.HashPolicy = []*typev3.HashPolicy{{
			PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}},
		}}
	}
	proxy.TunnelingConfig = tunnel(upstream.SpecOf(rule), subset)
}

// tunnel carries connections inside HTTP requests to a proxy, which connects to the target in the client's place. A subset's own word
// counts alone: what the rule says for the service is not inherited.
func tunnel(rule *networking.DestinationRule, subset string) *tcpproxyv3.TcpProxy_TunnelingConfig {
	settings := rule.GetTrafficPolicy().GetTunnel()
	if subset != "" {
		settings = nil
	}
	for _, s := range rule.GetSubsets() {
		if subset != "" && s.GetName() == subset {
			settings = s.GetTrafficPolicy().GetTunnel()
		}
	}
	if settings == nil {
		return nil
	}
	return &tcpproxyv3.TcpProxy_TunnelingConfig{
		Hostname: naming.HostPort(settings.GetTargetHost(), settings.GetTargetPort()), UsePost: settings.GetProtocol() == "POST",
	}
}

// hashesSource reports whether connections of one client address go to one endpoint.
func hashesSource(rule *networking.DestinationRule, subset string) bool {
	lb := rule.GetTrafficPolicy().GetLoadBalancer()
	for _, s := range rule.GetSubsets() {
		if s.GetName() == subset {
			lb = cmp.Or(s.GetTrafficPolicy().GetLoadBalancer(), lb)
		}
	}
	return lb.GetConsistentHash().GetUseSourceIp()
}

// idleTimeout is what the proxy's own configuration asks for, or nil.
func idleTimeout(v view.View) *durationpb.Duration {
	if v.Proxy.IdleTimeout == 0 {
		return nil
	}
	return durationpb.New(v.Proxy.IdleTimeout)
}

package filter

import (
	"cmp"

	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// applyRule sets what a DestinationRule says of the client's side of a connection.
func (c Context) applyRule(proxy *tcpproxyv3.TcpProxy, rule *mesh.DestinationRule, subset string) {
	policy := upstream.SpecOf(rule).GetTrafficPolicy()
	tcp := policy.GetConnectionPool().GetTcp()
	c.logConnections(proxy)
	proxy.IdleTimeout = cmp.Or(tcp.GetIdleTimeout(), idleTimeout(c.View))
	proxy.MaxDownstreamConnectionDuration = tcp.GetMaxConnectionDuration()
	if hashesSource(upstream.SpecOf(rule), subset) {
		proxy.HashPolicy = []*typev3.HashPolicy{{
			PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}},
		}}
	}
	proxy.TunnelingConfig = tunnel(upstream.SpecOf(rule), subset)
}

// tunnel carries connections inside HTTP requests to a proxy, which connects to the target in the
// client's place. A subset does not inherit what the rule says for the service.
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

// hashesSource reports whether all connections of a client address go to one endpoint.
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

package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/telemetry"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Listeners returns every listener of a proxy. A router has one for each socket of its Gateways; a sidecar one for each address and port that
// its application may connect to, the catch-all for the rest, and the one for what comes in. Where nothing redirects traffic, the outbound
// ones bind to loopback for the application to connect to, and there are no others.
func Listeners(m *mesh.Mesh, p *mesh.Proxy) []*listenerv3.Listener {
	s := ViewOf(m, p)
	return append(s.OutboundListeners(), s.InboundListeners()...)
}

// OutboundListeners are those for what proxies see. A router's are all of this sort.
func (s View) OutboundListeners() []*listenerv3.Listener {
	v := observed(s.View)
	if !s.Sidecar() {
		return logged(v.View, v.guarded().gatewayListeners())
	}
	out := v.outboundListeners()
	if proxy := v.httpProxy(); proxy != nil {
		out = append(out, proxy)
	}
	if v.Intercepted() {
		out = append(out, v.virtualOutbound())
	}
	return logged(v.View, out)
}

// InboundListeners are those for what the workload serves.
func (s View) InboundListeners() []*listenerv3.Listener {
	if !s.Sidecar() {
		return nil
	}
	v := observed(s.View)
	return logged(v.View, v.guarded().inboundListeners())
}

func logged(v view.View, listeners []*listenerv3.Listener) []*listenerv3.Listener {
	for _, l := range listeners {
		l.AccessLog = telemetry.ListenerLogs(v)
	}
	return listeners
}

// extraAddresses are what a listener listens on beside its first address.
func extraAddresses(binds []string, port uint32) []*listenerv3.AdditionalAddress {
	out := make([]*listenerv3.AdditionalAddress, len(binds)-1)
	for i, bind := range binds[1:] {
		out[i] = &listenerv3.AdditionalAddress{Address: message.SocketAddress(bind, port)}
	}
	return out
}

// exactBalance spreads new connections evenly over Envoy's threads, at the price of a lock.
func exactBalance(wanted bool) *listenerv3.Listener_ConnectionBalanceConfig {
	if !wanted {
		return nil
	}
	return &listenerv3.Listener_ConnectionBalanceConfig{
		BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
			ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{},
		},
	}
}

// acceptOneByOne lets other threads have a chance at a burst of connections, as in Istio.
var acceptOneByOne = message.U32(1)

// virtualOutbound catches what was redirected and has no listener of its own.
func (v filtering) virtualOutbound() *listenerv3.Listener {
	port := uint32(v.Config.GetProxyListenPort())
	l := &listenerv3.Listener{
		Name:                                 naming.VirtualOutbound,
		Address:                              message.SocketAddress(v.Wildcards()[0], port),
		AdditionalAddresses:                  extraAddresses(v.Wildcards(), port),
		UseOriginalDst:                       message.Yes,
		TrafficDirection:                     corev3.TrafficDirection_OUTBOUND,
		MaxConnectionsToAcceptPerSocketEvent: acceptOneByOne,
		FilterChains: []*listenerv3.FilterChain{
			refuseDirect(naming.VirtualOutbound+"-blackhole", port),
		},
	}
	if v.ResolvesUnknown() {
		l.ListenerFilters = []*listenerv3.ListenerFilter{httpInspector}
		l.FilterChains = append(l.FilterChains, v.unknownHTTP())
	}
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Name: naming.VirtualOutbound + "-catchall-tcp", Filters: v.unmatchedTCP()})
	if v.Proxy.Interception == mesh.InterceptionTProxy {
		l.Transparent = message.Yes
	}
	return l
}

// refuseDirect refuses connections to the listener's own port, which would be forwarded to itself without end. As by Istio they are in no
// access log.
func refuseDirect(name string, port uint32) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:             name,
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: message.U32(port)},
		Filters:          []*listenerv3.Filter{tcpFilter(tcpTo(naming.BlackHoleCluster))},
	}
}

// unmatchedTCP is where connections to unknown destinations go.
func (v filtering) unmatchedTCP() []*listenerv3.Filter {
	proxy := tcpTo(v.UnknownCluster())
	proxy.AccessLog = v.logs
	proxy.IdleTimeout = idleTimeout(v.View)
	return []*listenerv3.Filter{tcpFilter(proxy)}
}

package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// virtualInbound receives everything that is redirected to the workload: a chain or two for each port that a service
// names, and one that passes the rest on to the application.
func (v view) virtualInbound() *listenerv3.Listener {
	port := uint32(v.config.GetProxyInboundListenPort())
	l := &listenerv3.Listener{
		Name:                                 VirtualInbound,
		Address:                              socketAddress(v.wildcards()[0], port),
		TrafficDirection:                     corev3.TrafficDirection_INBOUND,
		ContinueOnListenerFiltersTimeout:     true,
		MaxConnectionsToAcceptPerSocketEvent: acceptOneByOne,
		ConnectionBalanceConfig:              exactBalance(v.proxy.InboundExactBalance),
		ListenerFilters:                      []*listenerv3.ListenerFilter{originalDestination},
		ListenerFiltersTimeout:               v.config.GetProtocolDetectionTimeout(),
	}
	if v.proxy.Interception == mesh.InterceptionTProxy {
		l.Transparent = yes
		l.ListenerFilters = append(l.ListenerFilters, originalSource)
	}
	l.FilterChains = append(l.FilterChains, v.refuseDirect(VirtualInbound+"-blackhole", port))
	uninspected := []uint32{port}
	for _, in := range v.inboundPorts() {
		l.FilterChains = append(l.FilterChains, in.chains()...)
		if !in.protocol.IsSniffed() {
			uninspected = append(uninspected, in.port)
		}
	}
	l.ListenerFilters = append(l.ListenerFilters, httpInspectorExcept(uninspected))
	return l
}

// inboundPort is one port of the workload, or, with port 0, all those that no service names.
type inboundPort struct {
	view

	port     uint32 // that the workload listens on
	service  string // the host of the oldest service on the port
	number   uint32 // that service's port
	protocol mesh.Protocol
	cluster  string
}

func (v view) inboundPorts() []inboundPort {
	out := []inboundPort{{view: v, cluster: InboundPassthroughCluster, protocol: mesh.ProtocolSniffed}}
	for _, served := range byListeningPort(v.mesh.Targets(v.proxy)) {
		first := served[0]
		out = append(out, inboundPort{
			view: v, port: first.Number, service: first.Service.Hostname, number: first.Port.Number,
			protocol: first.Port.Protocol, cluster: InboundClusterName(first.Number),
		})
	}
	return out
}

// chains tells HTTP from TCP where nobody declared which it is.
func (in inboundPort) chains() []*listenerv3.FilterChain {
	http := in.chain(in.httpName(), in.inboundHTTP(in.statPrefix(), in.protocol, in.routes()))
	tcp := in.chain(in.tcpName(), in.tcp())
	switch {
	case in.protocol.IsSniffed():
		http.FilterChainMatch.ApplicationProtocols = plaintextHTTP
		return []*listenerv3.FilterChain{http, tcp}
	case in.protocol.IsHTTP():
		return []*listenerv3.FilterChain{http}
	default:
		return []*listenerv3.FilterChain{tcp}
	}
}

func (in inboundPort) chain(name string, filter *listenerv3.Filter) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name: name,
		FilterChainMatch: &listenerv3.FilterChainMatch{
			DestinationPort: positive(in.port), TransportProtocol: rawBuffer,
		},
		Filters: []*listenerv3.Filter{filter},
	}
}

func (in inboundPort) tcp() *listenerv3.Filter {
	proxy := tcpTo(in.cluster)
	proxy.AccessLog = in.logs
	proxy.IdleTimeout = in.idleTimeout()
	return tcpFilter(proxy)
}

func (in inboundPort) passthrough() bool { return in.port == 0 }

func (in inboundPort) httpName() string {
	if in.passthrough() {
		return VirtualInbound + "-catchall-http"
	}
	return in.tcpName()
}

func (in inboundPort) tcpName() string {
	if in.passthrough() {
		return VirtualInbound
	}
	return listenerName(in.wildcards()[0], in.port)
}

func (in inboundPort) statPrefix() string {
	if in.passthrough() {
		return in.cluster
	}
	return "inbound_" + in.tcpName()
}

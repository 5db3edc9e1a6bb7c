package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// inboundListeners are virtualInbound, where connections are redirected to it, and those that a Sidecar has opened on ports of their own.
func (v view) inboundListeners() []*listenerv3.Listener {
	var out []*listenerv3.Listener
	var redirected []*listenerv3.FilterChain
	for _, in := range v.inboundPorts() {
		if in.explicit {
			out = append(out, v.inboundListener(in.tcpName(), in.binding, in.port, in.chains()))
		} else {
			redirected = append(redirected, in.chains()...)
		}
	}
	if v.intercepted() {
		out = append([]*listenerv3.Listener{v.virtualInbound(redirected)}, out...)
	}
	return out
}

// virtualInbound receives everything that is redirected to the workload: chains for each port that a service or the Sidecar names,
// and some that pass the rest on to the application.
func (v view) virtualInbound(named []*listenerv3.FilterChain) *listenerv3.Listener {
	port := uint32(v.config.GetProxyInboundListenPort())
	chains := []*listenerv3.FilterChain{refuseDirect(VirtualInbound+"-blackhole", port)}
	for _, in := range v.unnamedPorts() {
		chains = append(chains, in.chains()...)
	}
	return v.inboundListener(VirtualInbound, binding{binds: v.wildcards()}, port, append(chains, named...))
}

func (v view) inboundListener(name string, b binding, port uint32, chains []*listenerv3.FilterChain) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                                 name,
		Address:                              bindAddress(b.binds[0], port),
		AdditionalAddresses:                  extraAddresses(b.binds, port),
		TrafficDirection:                     corev3.TrafficDirection_INBOUND,
		ContinueOnListenerFiltersTimeout:     true,
		MaxConnectionsToAcceptPerSocketEvent: acceptOneByOne,
		ConnectionBalanceConfig:              exactBalance(v.proxy.InboundExactBalance),
		ListenerFiltersTimeout:               v.config.GetProtocolDetectionTimeout(),
		FilterChains:                         chains,
	}
	if !b.explicit {
		l.ListenerFilters = append(l.ListenerFilters, originalDestination)
	}
	if !b.explicit && v.proxy.Interception == mesh.InterceptionTProxy {
		l.Transparent = yes
		l.ListenerFilters = append(l.ListenerFilters, originalSource)
	}
	l.ListenerFilters = append(l.ListenerFilters, inspectors(chains)...)
	return l
}

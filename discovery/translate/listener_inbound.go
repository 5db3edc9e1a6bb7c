package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// inboundListeners are virtualInbound, where connections are redirected to it, and those that a Sidecar has opened on ports of their own.
func (v filtering) inboundListeners() []*listenerv3.Listener {
	var out []*listenerv3.Listener
	var redirected []*listenerv3.FilterChain
	for _, in := range v.inboundPorts() {
		if in.Explicit {
			out = append(out, inboundListener(v.View, in.tcpName(), in.Binding, in.port, in.chains()))
		} else {
			redirected = append(redirected, in.chains()...)
		}
	}
	if v.Intercepted() {
		out = append([]*listenerv3.Listener{v.virtualInbound(redirected)}, out...)
	}
	return out
}

// virtualInbound receives everything that is redirected to the workload: chains for each port that a service or the Sidecar names,
// and some that pass the rest on to the application.
func (v filtering) virtualInbound(named []*listenerv3.FilterChain) *listenerv3.Listener {
	port := uint32(v.Config.GetProxyInboundListenPort())
	chains := []*listenerv3.FilterChain{refuseDirect(naming.VirtualInbound+"-blackhole", port)}
	for _, in := range v.unnamedPorts() {
		chains = append(chains, in.chains()...)
	}
	return inboundListener(v.View, naming.VirtualInbound, binding.Binding{Binds: v.Wildcards()}, port, append(chains, named...))
}

func inboundListener(v view.View, name string, b binding.Binding, port uint32, chains []*listenerv3.FilterChain) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                                 name,
		Address:                              message.BindAddress(b.Binds[0], port),
		AdditionalAddresses:                  extraAddresses(b.Binds, port),
		TrafficDirection:                     corev3.TrafficDirection_INBOUND,
		ContinueOnListenerFiltersTimeout:     true,
		MaxConnectionsToAcceptPerSocketEvent: acceptOneByOne,
		ConnectionBalanceConfig:              exactBalance(v.Proxy.InboundExactBalance),
		ListenerFiltersTimeout:               v.Config.GetProtocolDetectionTimeout(),
		FilterChains:                         chains,
	}
	if !b.Explicit {
		l.ListenerFilters = append(l.ListenerFilters, originalDestination)
	}
	if !b.Explicit && v.Proxy.Interception == mesh.InterceptionTProxy {
		l.Transparent = message.Yes
		l.ListenerFilters = append(l.ListenerFilters, originalSource)
	}
	l.ListenerFilters = append(l.ListenerFilters, inspectors(chains)...)
	return l
}

// Package inbound makes the listeners for what a sidecar's workload serves.
package inbound

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Listeners are virtualInbound, if connections are redirected to it, and one for each port that a
// Sidecar opens by itself.
func Listeners(v view.View) []*listenerv3.Listener {
	context := filter.Guarded(v)
	var out []*listenerv3.Listener
	var redirected []*listenerv3.FilterChain
	for _, in := range portsOf(context) {
		if in.Explicit {
			out = append(out, listenerAt(v, in.tcpName(), in.Binding, in.port, in.chains()))
		} else {
			redirected = append(redirected, in.chains()...)
		}
	}
	if v.Intercepted() {
		out = append([]*listenerv3.Listener{virtualInbound(context, redirected)}, out...)
	}
	return out
}

// virtualInbound receives everything that is redirected to the workload. It has chains for each
// port that a service or the Sidecar names, and some that pass the rest on to the application.
func virtualInbound(c filter.Context, named []*listenerv3.FilterChain) *listenerv3.Listener {
	port := uint32(c.Config.GetProxyInboundListenPort())
	chains := []*listenerv3.FilterChain{listener.RefuseDirect(naming.VirtualInbound+"-blackhole", port)}
	for _, in := range unnamedPorts(c) {
		chains = append(chains, in.chains()...)
	}
	return listenerAt(c.View, naming.VirtualInbound, binding.Binding{Binds: c.Wildcards()}, port, append(chains, named...))
}

func listenerAt(v view.View, name string, b binding.Binding, port uint32, chains []*listenerv3.FilterChain) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                                 name,
		Address:                              message.BindAddress(b.Binds[0], port),
		AdditionalAddresses:                  listener.ExtraAddresses(b.Binds, port),
		TrafficDirection:                     corev3.TrafficDirection_INBOUND,
		ContinueOnListenerFiltersTimeout:     true,
		MaxConnectionsToAcceptPerSocketEvent: listener.AcceptOneByOne,
		ConnectionBalanceConfig:              listener.ExactBalance(v.Proxy.InboundExactBalance),
		ListenerFiltersTimeout:               v.Config.GetProtocolDetectionTimeout(),
		FilterChains:                         chains,
	}
	if !b.Explicit {
		l.ListenerFilters = append(l.ListenerFilters, listener.OriginalDestination)
	}
	if !b.Explicit && v.Proxy.Interception == mesh.InterceptionTProxy {
		l.Transparent = message.Yes
		l.ListenerFilters = append(l.ListenerFilters, listener.OriginalSource)
	}
	l.ListenerFilters = append(l.ListenerFilters, inspectors(chains)...)
	return l
}

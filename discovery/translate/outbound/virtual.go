package outbound

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// virtual catches what was redirected and has no listener of its own.
func virtual(c filter.Context) *listenerv3.Listener {
	port := uint32(c.Config.GetProxyListenPort())
	l := &listenerv3.Listener{
		Name:                                 naming.VirtualOutbound,
		Address:                              message.SocketAddress(c.Wildcards()[0], port),
		AdditionalAddresses:                  listener.ExtraAddresses(c.Wildcards(), port),
		UseOriginalDst:                       message.Yes,
		TrafficDirection:                     corev3.TrafficDirection_OUTBOUND,
		MaxConnectionsToAcceptPerSocketEvent: listener.AcceptOneByOne,
		FilterChains: []*listenerv3.FilterChain{
			listener.RefuseDirect(naming.VirtualOutbound+"-blackhole", port),
		},
	}
	if c.ResolvesUnknown() {
		l.ListenerFilters = []*listenerv3.ListenerFilter{listener.HTTPInspector}
		l.FilterChains = append(l.FilterChains, unknownHTTP(c))
	}
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Name: naming.VirtualOutbound + "-catchall-tcp", Filters: c.Unmatched()})
	if c.Proxy.Interception == mesh.InterceptionTProxy {
		l.Transparent = message.Yes
	}
	return l
}

func unknownHTTP(c filter.Context) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:             naming.VirtualOutbound + "-catchall-tcp-http",
		FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: listener.PlaintextHTTP},
		Filters:          c.UnknownHTTP(),
	}
}

package translate

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// gatewayListeners has one for each socket that a router exposes, in the order of their names.
func (v filtering) gatewayListeners() []*listenerv3.Listener {
	var out []*listenerv3.Listener
	for _, socket := range v.Mesh.Frontend(v.Proxy).Sockets {
		if chains := v.gatewayChains(socket); len(chains) > 0 {
			out = append(out, gatewayListener(v.View, socket, chains))
		}
	}
	slices.SortFunc(out, func(a, b *listenerv3.Listener) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func gatewayListener(v view.View, socket *mesh.Socket, chains []chain) *listenerv3.Listener {
	binds := binds(v, socket)
	l := &listenerv3.Listener{
		Name:                                 naming.Listener(binds[0], socket.Port),
		Address:                              message.BindAddress(binds[0], socket.Port),
		AdditionalAddresses:                  extraAddresses(binds, socket.Port),
		TrafficDirection:                     corev3.TrafficDirection_OUTBOUND,
		ConnectionBalanceConfig:              exactBalance(v.Proxy.OutboundExactBalance),
		MaxConnectionsToAcceptPerSocketEvent: acceptOneByOne,
		PerConnectionBufferLimitBytes:        message.Natural(connectionSettingsOf(v).GetListenerPerConnectionBufferLimitBytes()),
	}
	if v.ProxyConfig().GetGatewayTopology().GetProxyProtocol() != nil {
		l.ListenerFilters = append(l.ListenerFilters, proxyProtocol)
	}
	if slices.ContainsFunc(socket.Entrances, func(e *mesh.Entrance) bool { return !e.Server.Plain() }) {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector)
	}
	for _, c := range chains {
		l.FilterChains = append(l.FilterChains, c.build())
	}
	return l
}

// binds are the addresses that a socket listens on.
func binds(v view.View, socket *mesh.Socket) []string {
	if socket.Bind != "" {
		return []string{socket.Bind}
	}
	return v.Wildcards()
}

// gatewayChains are those of a socket's entrances.
func (v filtering) gatewayChains(socket *mesh.Socket) []chain {
	var out []chain
	for _, e := range socket.Entrances {
		v := v.certifying(e.Server.EndsTLS() && secret.ChecksClients(e.Server.Spec.GetTls()))
		switch {
		case e.Server.AutoPassthrough():
			out = append(out, v.autoPassthroughChains(e)...)
		case e.Route != "":
			out = append(out, chain{names: e.Names, tls: endTLS(v.View, e.Server), filters: []*listenerv3.Filter{v.gatewayHTTP(socket, e)}})
		default:
			out = append(out, chain{names: e.Names, tls: endTLS(v.View, e.Server), filters: v.guard.OnConnections(v.certified, v.routed(e.To, e.Rule, serverPort(e.Server.Spec))...)})
		}
	}
	return out
}

// serverPort is a server's port as that of a service.
func serverPort(s *networking.Server) *mesh.Port {
	return &mesh.Port{
		Name: s.GetPort().GetName(), Number: s.GetPort().GetNumber(), Protocol: mesh.ParseProtocol(s.GetPort().GetProtocol()),
	}
}

// endTLS is the transport socket of connections whose TLS ends at the router; nil for others.
func endTLS(v view.View, s *mesh.Server) *corev3.TransportSocket {
	if !s.EndsTLS() {
		return nil
	}
	return transport.Server(v, s.Spec.GetTls())
}

// Package gateway makes the listeners of routers: those of the Gateways that select them.
package gateway

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/datagram"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Listeners has one for each socket that a router exposes, in the order of their names.
func Listeners(v view.View) []*listenerv3.Listener {
	context := filter.Guarded(v)
	var out []*listenerv3.Listener
	for _, socket := range v.Mesh.Frontend(v.Proxy).Sockets {
		if socket.Datagrams {
			out = append(out, datagrams(v, socket))
			continue
		}
		if chains := chainsOf(context, socket); len(chains) > 0 {
			out = append(out, listenerOf(v, socket, chains))
		}
	}
	slices.SortFunc(out, func(a, b *listenerv3.Listener) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func listenerOf(v view.View, socket *mesh.Socket, chains []listener.Chain) *listenerv3.Listener {
	binds := binds(v, socket)
	l := &listenerv3.Listener{
		Name:                                 nameOf(v, socket),
		Address:                              message.BindAddress(binds[0], socket.Port),
		AdditionalAddresses:                  listener.ExtraAddresses(binds, socket.Port),
		TrafficDirection:                     corev3.TrafficDirection_OUTBOUND,
		ConnectionBalanceConfig:              listener.ExactBalance(v.Proxy.OutboundExactBalance),
		MaxConnectionsToAcceptPerSocketEvent: listener.AcceptOneByOne,
		PerConnectionBufferLimitBytes:        message.Natural(v.ConnectionSettings().GetListenerPerConnectionBufferLimitBytes()),
	}
	if v.ProxyConfig().GetGatewayTopology().GetProxyProtocol() != nil {
		l.ListenerFilters = append(l.ListenerFilters, listener.ProxyProtocol)
	}
	if slices.ContainsFunc(socket.Entrances, func(e *mesh.Entrance) bool { return !e.Server.Plain() }) {
		l.ListenerFilters = append(l.ListenerFilters, listener.TLSInspector)
	}
	for _, c := range chains {
		l.FilterChains = append(l.FilterChains, c.Build())
	}
	return l
}

// datagrams is the listener of a socket of UDP, which has one entrance.
func datagrams(v view.View, socket *mesh.Socket) *listenerv3.Listener {
	binds := binds(v, socket)
	l := &listenerv3.Listener{
		Name:             naming.DatagramListener(binds[0], socket.Port),
		Address:          message.DatagramAddress(binds[0], socket.Port),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{datagram.Proxy(v, socket.Entrances[0])},
	}
	for _, bind := range binds[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: message.DatagramAddress(bind, socket.Port)})
	}
	return l
}

// nameOf is the name of a socket's listener.
func nameOf(v view.View, socket *mesh.Socket) string {
	return naming.Listener(binds(v, socket)[0], socket.Port)
}

// binds are the addresses that a socket listens on.
func binds(v view.View, socket *mesh.Socket) []string {
	if socket.Bind != "" {
		return []string{socket.Bind}
	}
	return v.Wildcards()
}

// chainsOf are the chains of a socket's entrances.
func chainsOf(c filter.Context, socket *mesh.Socket) []listener.Chain {
	var out []listener.Chain
	for _, e := range socket.Entrances {
		c := c.Certifying(e.Server.EndsTLS() && secret.ChecksClients(e.Server.Spec.GetTls()))
		c.Shows = e.Server.Shows
		switch {
		case e.Server.AutoPassthrough():
			out = append(out, passthrough(c, e)...)
		case e.Route != "":
			out = append(out, listener.Chain{Names: e.Names, TLS: endTLS(c.View, e.Server), Filters: c.GatewayHTTP(nameOf(c.View, socket), e)})
		default:
			out = append(out, listener.Chain{Names: e.Names, TLS: endTLS(c.View, e.Server), Filters: c.Guarding(e.Server.Spec.GetPort().GetNumber(), c.Routed(e.To, e.Rule, serverPort(e.Server.Spec))...)})
		}
	}
	return out
}

// serverPort is a server's port, written as that of a service.
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

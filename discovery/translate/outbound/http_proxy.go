package outbound

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// httpProxy is an ordinary HTTP proxy to applications. It routes requests by the host and the port
// in them.
func httpProxy(c filter.Context) *listenerv3.Listener {
	port := &mesh.Port{Number: c.HTTPProxyPort(), Protocol: mesh.ProtocolHTTPProxy}
	b := binding.Binding{Binds: c.Loopbacks(), Explicit: true}
	var dynamic upstream.DynamicServices
	egress := route.EgressOf(c.View, naming.Route{Full: naming.HTTPProxyRoute})
	if egress != nil {
		dynamic = upstream.DynamicIn(egress)
	}
	requests := c.OutboundHTTP(b.Binds[0], port, naming.HTTPProxyRoute, dynamic.On(port), need.InEgress(c.View, egress).OnPort(0))
	l := planned{Binding: b, port: port.Number, protocol: port.Protocol, chains: []listener.Chain{{Filters: requests}}}
	return l.build(c)
}

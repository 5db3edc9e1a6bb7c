package filter

import (
	"cmp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/ondemand"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// OutboundHTTP reads requests of the local application and routes them by the route configuration
// of a name, whose routes need some filters. The hosts of the services are resolved for each request.
func (c Context) OutboundHTTP(bind string, port *mesh.Port, routes string, services []*mesh.Service, needed need.Filters) []*listenerv3.Filter {
	m := c.connectionManager("outbound_"+naming.Listener(bind, port.Number), port.Protocol)
	m.HttpFilters = withResolvers(c.View, m.GetHttpFilters(), services)
	addNeeded(m, needed)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{
		Rds: &hcmv3.Rds{ConfigSource: message.OverADS(), RouteConfigName: routes},
	}
	if routes == naming.HTTPProxyRoute {
		takeAbsoluteURLs(m)
	}
	if c.Proxy.OnDemand && naming.ParseRoute(routes).Host == "" {
		ondemand.AskFirst(m)
	}
	return marked(c.reading(port.Number, m), needed)
}

// InboundHTTP reads requests for the local application at a port, and describes the certificates of
// clients to it.
func (c Context) InboundHTTP(port uint32, statPrefix string, protocol mesh.Protocol, routes *routev3.RouteConfiguration) []*listenerv3.Filter {
	m := c.connectionManager(statPrefix, protocol)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
	nameServer(m)
	describeClients(c.View, m)
	if protocol.IsHTTP2() {
		m.Http2ProtocolOptions = cmp.Or(m.GetHttp2ProtocolOptions(), &corev3.Http2ProtocolOptions{})
	}
	return c.reading(port, m)
}

// UnknownHTTP reads requests on ports without a listener, and sends them to the hosts that they
// name.
func (c Context) UnknownHTTP() []*listenerv3.Filter {
	m := c.connectionManager("outbound_"+naming.VirtualOutbound+"_"+naming.AllowAnyDynamic, mesh.ProtocolHTTP)
	m.HttpFilters = withResolvers(c.View, m.GetHttpFilters(), nil)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name:                           naming.AllowAnyDynamic,
		VirtualHosts:                   []*routev3.VirtualHost{virtualhost.Unmatched(c.View).Message(c.CountsAttempts())},
		ValidateClusters:               message.No,
		MaxDirectResponseBodySizeBytes: route.MaxDirectResponse,
		IgnorePortInHostMatching:       true,
	}}
	return c.reading(0, m)
}

// takeAbsoluteURLs says what Envoy does anyway: a proxy's clients name the host in the first line.
func takeAbsoluteURLs(m *hcmv3.HttpConnectionManager) {
	if m.GetHttpProtocolOptions() == nil {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
	}
	m.HttpProtocolOptions.AllowAbsoluteUrl = message.Yes
}

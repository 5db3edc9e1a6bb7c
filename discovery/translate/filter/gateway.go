package filter

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// GatewayHTTP reads requests that come from outside. The topology says how far their word is taken
// for where they come from, and what those behind are told of a client's certificate.
func (c Context) GatewayHTTP(listener string, e *mesh.Entrance) []*listenerv3.Filter {
	m := c.connectionManager("outbound_"+listener, e.Server.Protocol)
	if name := e.Server.Spec.GetName(); name != "" && !e.Server.Plain() {
		m.StatPrefix = name
	}
	if scoped.On(c.View, e.Route) {
		scoped.RouteBy(m, e.Route)
	} else {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: message.OverADS(), RouteConfigName: e.Route}}
	}
	if m.GetHttpProtocolOptions() == nil {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
	}
	needed := need.OnServer(c.View, e.Route)
	addNeeded(m, needed)
	m.UseRemoteAddress = message.Yes
	applyTopology(c.View, m)
	nameServer(m)
	return marked(c.reading(e.Server.Spec.GetPort().GetNumber(), m), needed)
}

// applyTopology tells which proxies in front of the router are believed, and what becomes of client
// certificates.
func applyTopology(v view.View, m *hcmv3.HttpConnectionManager) {
	topology := v.ProxyConfig().GetGatewayTopology()
	m.XffNumTrustedHops = topology.GetNumTrustedProxies()
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
	if how, said := forwardings[topology.GetForwardClientCertDetails()]; said {
		m.ForwardClientCertDetails = how
	}
	switch m.GetForwardClientCertDetails() {
	case hcmv3.HttpConnectionManager_APPEND_FORWARD, hcmv3.HttpConnectionManager_SANITIZE_SET:
		m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Subject: message.Yes, Cert: true, Dns: true, Uri: true}
	case hcmv3.HttpConnectionManager_SANITIZE, hcmv3.HttpConnectionManager_FORWARD_ONLY, hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY:
	}
}

package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
)

// httpProxy is the listener there, or nil. What is asked of it is routed by the host and the port in the request.
func (v filtering) httpProxy() *listenerv3.Listener {
	port := &mesh.Port{Number: v.HTTPProxyPort(), Protocol: mesh.ProtocolHTTPProxy}
	if port.Number == 0 {
		return nil
	}
	b := binding.Binding{Binds: v.Loopbacks(), Explicit: true}
	var dynamic dynamicServices
	if egress := route.EgressOf(v.View, naming.Route{Full: naming.HTTPProxyRoute}); egress != nil {
		dynamic = dynamicIn(egress)
	}
	filter := v.outboundHTTP(b.Binds[0], port, naming.HTTPProxyRoute, dynamic.on(port))
	return v.outboundListener(&plannedListener{
		Binding: b, port: port.Number, protocol: port.Protocol,
		chains: []chain{{filters: []*listenerv3.Filter{filter}}},
	})
}

// takeAbsoluteURLs says what Envoy does anyway: a proxy's clients name the host in the first line.
func takeAbsoluteURLs(m *hcmv3.HttpConnectionManager) {
	if m.GetHttpProtocolOptions() == nil {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
	}
	m.HttpProtocolOptions.AllowAbsoluteUrl = message.Yes
}

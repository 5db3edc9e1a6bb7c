package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// httpProxyRoute is the route of clients that use the proxy port of the mesh.
const httpProxyRoute = "http_proxy"

// httpProxyPort is where applications find their sidecar as an ordinary HTTP proxy (HTTP_PROXY=127.0.0.1:PORT), 0 if nowhere.
func (v view) httpProxyPort() uint32 {
	if v.proxy.HTTPProxyPort != 0 {
		return v.proxy.HTTPProxyPort
	}
	return uint32(v.config.GetProxyHttpPort())
}

// httpProxy is the listener there, or nil. What is asked of it is routed by the host and the port in the request.
func (v view) httpProxy() *listenerv3.Listener {
	port := &mesh.Port{Number: v.httpProxyPort(), Protocol: mesh.ProtocolHTTPProxy}
	if port.Number == 0 {
		return nil
	}
	b := binding{binds: v.loopbacks(), explicit: true}
	var dynamic dynamicServices
	if egress := v.egressOf(routeName{full: httpProxyRoute}); egress != nil {
		dynamic = dynamicIn(egress)
	}
	filter := v.outboundHTTP(b.binds[0], port, httpProxyRoute, dynamic.on(port))
	return v.outboundListener(&plannedListener{
		binding: b, port: port.Number, protocol: port.Protocol,
		chains: []chain{{filters: []*listenerv3.Filter{filter}}},
	})
}

// takeAbsoluteURLs says what Envoy does anyway: a proxy's clients name the host in the first line.
func takeAbsoluteURLs(m *hcmv3.HttpConnectionManager) {
	if m.GetHttpProtocolOptions() == nil {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
	}
	m.HttpProtocolOptions.AllowAbsoluteUrl = yes
}

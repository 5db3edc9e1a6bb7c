package transport

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// AnnouncingClient begins each connection of a socket with a PROXY header, which tells the server
// who the client is. It goes before TLS. A nil socket is plaintext.
func AnnouncingClient(settings *networking.TrafficPolicy_ProxyProtocol, inner *corev3.TransportSocket) *corev3.TransportSocket {
	version := corev3.ProxyProtocolConfig_V1
	if settings.GetVersion() == networking.TrafficPolicy_ProxyProtocol_V2 {
		version = corev3.ProxyProtocolConfig_V2
	}
	if inner == nil {
		inner = plaintext()
	}
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.upstream_proxy_protocol",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: message.Pack(&proxyprotocolv3.ProxyProtocolUpstreamTransport{
			Config: &corev3.ProxyProtocolConfig{Version: version}, TransportSocket: inner,
		})},
	}
}

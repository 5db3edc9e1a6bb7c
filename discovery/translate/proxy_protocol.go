package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// announceClient begins each connection with a PROXY header, which tells the server who the client is. It goes before TLS.
func announceClient(d *draft, settings *networking.TrafficPolicy_ProxyProtocol) {
	if settings == nil {
		return
	}
	version := corev3.ProxyProtocolConfig_V1
	if settings.GetVersion() == networking.TrafficPolicy_ProxyProtocol_V2 {
		version = corev3.ProxyProtocolConfig_V2
	}
	for _, match := range d.GetTransportSocketMatches() {
		match.TransportSocket = behindHeader(version, match.GetTransportSocket())
	}
	switch {
	case d.GetTransportSocket() != nil:
		d.TransportSocket = behindHeader(version, d.GetTransportSocket())
	case len(d.GetTransportSocketMatches()) == 0:
		d.TransportSocket = behindHeader(version, plaintextSocket())
	}
}

func behindHeader(version corev3.ProxyProtocolConfig_Version, inner *corev3.TransportSocket) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.upstream_proxy_protocol",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: message.Pack(&proxyprotocolv3.ProxyProtocolUpstreamTransport{
			Config: &corev3.ProxyProtocolConfig{Version: version}, TransportSocket: inner,
		})},
	}
}

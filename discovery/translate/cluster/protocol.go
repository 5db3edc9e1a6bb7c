package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// speak sets the protocol of upstream connections. A sidecar that had to detect the protocol
// forwards requests in it.
func (d *draft) speak(p mesh.Protocol, sidecar bool) {
	switch {
	case p.IsHTTP2():
		d.useHTTP2()
	case p.IsSniffed() && sidecar:
		d.useClientProtocol()
	}
}

func (d *draft) useHTTP2() {
	if d.options().UpstreamProtocolOptions == nil {
		d.http.UpstreamProtocolOptions = explicitly(&upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
			},
		})
	}
}

func (d *draft) useClientProtocol() { d.options().UpstreamProtocolOptions = clientProtocol() }

func clientProtocol() *upstreamhttpv3.HttpProtocolOptions_UseDownstreamProtocolConfig {
	return &upstreamhttpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
		},
	}
}

func explicitly(c *upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig) *upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_ {
	return &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: c}
}

// upgradesToHTTP2 decides whether connections to an HTTP/1.1 service are made as HTTP/2. The rule
// counts before the mesh.
func upgradesToHTTP2(pool *networking.ConnectionPoolSettings, port *mesh.Port, config *meshconfig.MeshConfig) bool {
	if pool.GetHttp().GetUseClientProtocol() {
		return false
	}
	switch pool.GetHttp().GetH2UpgradePolicy() {
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		return true
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		return false
	case networking.ConnectionPoolSettings_HTTPSettings_DEFAULT:
	}
	return port.Protocol.IsHTTP() && config.GetH2UpgradePolicy() == meshconfig.MeshConfig_UPGRADE
}

package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	dnscachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// A mesh with the outbound traffic policy ALLOW_ANY_DYNAMIC_DNS sends requests to unknown hosts to the address that the
// proxy finds for the host they name, and not to the one that the client connected to. Other traffic goes where it was
// meant to.

const (
	// UnknownHostsCluster is where they go.
	UnknownHostsCluster = "AllowAnyDynamicDNSCluster"

	allowAnyDynamic = "allow_any_dynamic_dns"
)

// resolvesUnknown reports whether the proxy does so. A Sidecar has no such mode of its own.
func (v view) resolvesUnknown() bool {
	return v.sidecar() && int32(v.scope.Unknown.GetMode()) == int32(meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS)
}

// unknownCache says how many names are kept; the number is Envoy's own default.
func (v view) unknownCache() *dnscachev3.DnsCacheConfig {
	return &dnscachev3.DnsCacheConfig{
		Name: "allow_any_dfp_dns_cache", DnsLookupFamily: v.lookupFamily(), MaxHosts: u32(1024), TypedDnsResolverConfig: v.ownResolver(),
	}
}

// unknownHosts speaks to them in the protocol that the client spoke, and by TLS if the mesh says so.
func (v view) unknownHosts() *clusterv3.Cluster {
	tls := v.config.GetOutboundTrafficPolicy().GetTls()
	d := v.passthroughDraft()
	d.Name, d.AltStatName = UnknownHostsCluster, statName(UnknownHostsCluster)
	d.ConnectTimeout = v.config.GetConnectTimeout()
	d.discoverPerRequest(v.unknownCache())
	nobody := upstream{service: &mesh.Service{}, port: &mesh.Port{}}
	if context := v.tlsContext(&d, nobody, tls); context != nil {
		d.TransportSocket = tlsSocket(context)
	}
	return d.finish()
}

// unknownHTTP is the chain of virtualOutbound for requests on ports without a listener.
func (v view) unknownHTTP() *listenerv3.FilterChain {
	m := v.connectionManager("outbound_"+VirtualOutbound+"_"+allowAnyDynamic, mesh.ProtocolHTTP)
	m.HttpFilters = v.withResolvers(m.GetHttpFilters(), nil)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name:                           allowAnyDynamic,
		VirtualHosts:                   []*routev3.VirtualHost{v.unmatchedHTTP().message(v.countsAttempts())},
		ValidateClusters:               no,
		MaxDirectResponseBodySizeBytes: maxDirectResponse,
		IgnorePortInHostMatching:       true,
	}}
	return &listenerv3.FilterChain{
		Name:             VirtualOutbound + "-catchall-tcp-http",
		FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: plaintextHTTP},
		Filters:          []*listenerv3.Filter{managerFilter(m)},
	}
}

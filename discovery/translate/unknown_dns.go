package translate

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// A mesh with the outbound traffic policy ALLOW_ANY_DYNAMIC_DNS sends requests to unknown hosts to the address that the
// proxy finds for the host they name, and not to the one that the client connected to. Other traffic goes where it was
// meant to.

// unknownHTTP is the chain of virtualOutbound for requests on ports without a listener.
func (v filtering) unknownHTTP() *listenerv3.FilterChain {
	m := v.connectionManager("outbound_"+naming.VirtualOutbound+"_"+naming.AllowAnyDynamic, mesh.ProtocolHTTP)
	m.HttpFilters = withResolvers(v.View, m.GetHttpFilters(), nil)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name:                           naming.AllowAnyDynamic,
		VirtualHosts:                   []*routev3.VirtualHost{virtualhost.Unmatched(v.View).Message(v.CountsAttempts())},
		ValidateClusters:               message.No,
		MaxDirectResponseBodySizeBytes: route.MaxDirectResponse,
		IgnorePortInHostMatching:       true,
	}}
	return &listenerv3.FilterChain{
		Name:             naming.VirtualOutbound + "-catchall-tcp-http",
		FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: plaintextHTTP},
		Filters:          []*listenerv3.Filter{managerFilter(m)},
	}
}

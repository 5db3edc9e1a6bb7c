package translate

import (
	"cmp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcstatsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

var (
	grpcWebFilter   = message.HTTPFilter("envoy.filters.http.grpc_web", &grpcwebv3.GrpcWeb{})
	grpcStatsFilter = message.HTTPFilter("envoy.filters.http.grpc_stats", &grpcstatsv3.FilterConfig{
		EmitFilterState:        true,
		PerMethodStatSpecifier: &grpcstatsv3.FilterConfig_StatsForAllMethods{StatsForAllMethods: message.No},
	})
	faultFilter  = message.HTTPFilter(route.FaultFilter, &faultv3.HTTPFault{})
	corsFilter   = message.HTTPFilter(route.CORSFilter, &corsv3.Cors{})
	routerFilter = message.HTTPFilter("envoy.filters.http.router", &routerv3.Router{})
	// quietRouterFilter adds no headers that tell of Envoy.
	quietRouterFilter = message.HTTPFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true})
)

var requestIDs = &hcmv3.RequestIDExtension{TypedConfig: message.Pack(&uuidv3.UuidRequestIdConfig{
	UseRequestIdForTraceSampling: wrapperspb.Bool(true),
})}

// outboundHTTP reads requests of the local application and routes them by a route configuration. The services are those
// that requests may reach by a name which the proxy has to resolve.
func (v filtering) outboundHTTP(bind string, port *mesh.Port, route string, services []*mesh.Service) *listenerv3.Filter {
	m := v.connectionManager("outbound_"+naming.Listener(bind, port.Number), port.Protocol)
	m.HttpFilters = withResolvers(v.View, m.GetHttpFilters(), services)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{
		Rds: &hcmv3.Rds{ConfigSource: message.OverADS(), RouteConfigName: route},
	}
	if route == naming.HTTPProxyRoute {
		takeAbsoluteURLs(m)
	}
	if v.Proxy.OnDemand && naming.ParseRoute(route).Host == "" {
		askFirst(m)
	}
	return managerFilter(m)
}

// inboundHTTP reads requests for the local application. Client certificates are described to it.
func (v filtering) inboundHTTP(statPrefix string, protocol mesh.Protocol, routes *routev3.RouteConfiguration) *listenerv3.Filter {
	m := v.connectionManager(statPrefix, protocol)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
	nameServer(m)
	describeClients(v.View, m)
	v.guard.OnRequests(m, v.certified)
	if protocol.IsHTTP2() {
		m.Http2ProtocolOptions = cmp.Or(m.GetHttp2ProtocolOptions(), &corev3.Http2ProtocolOptions{})
	}
	return managerFilter(m)
}

func managerFilter(m *hcmv3.HttpConnectionManager) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name:       "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: message.Pack(m)},
	}
}

func (v filtering) connectionManager(statPrefix string, protocol mesh.Protocol) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:         naming.Stat(statPrefix),
		UseRemoteAddress:   message.No,
		StreamIdleTimeout:  message.NoDuration,
		UpgradeConfigs:     []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		RequestIdExtension: requestIDs,
		Proxy_100Continue:  true,
		AccessLog:          v.logs,
		Tracing:            v.trace,
		HttpFilters:        httpFilters(protocol),
	}
	normalizePaths(v.View, m)
	if idle := idleTimeout(v.View); idle != nil {
		m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: idle}
	}
	if v.Proxy.HTTP10 {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AcceptHttp_10: true}
	}
	applyHeaders(v.View, m)
	applyConnectionSettings(m, connectionSettingsOf(v.View))
	return m
}

// httpFilters lets fault and CORS be configured by each route; the router comes last.
func httpFilters(protocol mesh.Protocol) []*hcmv3.HttpFilter {
	filters := []*hcmv3.HttpFilter{grpcStatsFilter, faultFilter, corsFilter, routerFilter}
	if protocol == mesh.ProtocolGRPCWeb {
		return append([]*hcmv3.HttpFilter{grpcWebFilter}, filters...)
	}
	return filters
}

// normalizePaths decides how alike paths must be for rules to see them as one.
func normalizePaths(v view.View, m *hcmv3.HttpConnectionManager) {
	m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_KEEP_UNCHANGED
	m.NormalizePath = message.Yes
	switch v.Config.GetPathNormalization().GetNormalization() {
	case meshconfig.MeshConfig_ProxyPathNormalization_NONE:
		m.NormalizePath = message.No
	case meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		m.MergeSlashes = true
	case meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES:
		m.MergeSlashes = true
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	case meshconfig.MeshConfig_ProxyPathNormalization_DEFAULT, meshconfig.MeshConfig_ProxyPathNormalization_BASE:
	}
}

package filter

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
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

const managerName = "envoy.filters.network.http_connection_manager"

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

// The ids of requests say whether those are traced, or do not.
var tracingIDs, plainIDs = requestIDs(message.Yes), requestIDs(message.No)

func requestIDs(tracing *wrapperspb.BoolValue) *hcmv3.RequestIDExtension {
	return &hcmv3.RequestIDExtension{TypedConfig: message.Pack(&uuidv3.UuidRequestIdConfig{UseRequestIdForTraceSampling: tracing})}
}

// connectionManager reads requests. How they are routed is for the caller to say.
func (c Context) connectionManager(statPrefix string, protocol mesh.Protocol) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:         naming.Stat(statPrefix),
		UseRemoteAddress:   message.No,
		StreamIdleTimeout:  message.NoDuration,
		UpgradeConfigs:     []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		RequestIdExtension: c.ids,
		Proxy_100Continue:  true,
		AccessLog:          c.requestLogs(),
		Tracing:            c.trace,
		HttpFilters:        httpFilters(protocol),
	}
	normalizePaths(c.View, m)
	if idle := idleTimeout(c.View); idle != nil {
		m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: idle}
	}
	if c.Proxy.HTTP10 {
		m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AcceptHttp_10: true}
	}
	applyHeaders(c.View, m)
	applyConnectionSettings(m, c.ConnectionSettings())
	return m
}

// httpFilters are configured by each route, as far as faults and CORS go. The router comes last.
func httpFilters(protocol mesh.Protocol) []*hcmv3.HttpFilter {
	filters := []*hcmv3.HttpFilter{grpcStatsFilter, faultFilter, corsFilter, routerFilter}
	if protocol == mesh.ProtocolGRPCWeb {
		return append([]*hcmv3.HttpFilter{grpcWebFilter}, filters...)
	}
	return filters
}

// normalizePaths decides which paths are one to rules.
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

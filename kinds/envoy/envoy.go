// Package envoy reads the parts of Envoy's configuration that EnvoyFilters contain, and checks
// them.
//
// An EnvoyFilter carries fragments of Envoy's configuration as free-form JSON, which our schema
// does not describe. This package decodes them into Envoy's messages and reports mistakes with
// their paths, so that the author sees them and not the first Envoy that receives them. stock.txt
// lists the extensions of a stock Envoy, taken from one.
package envoy

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Filters that contain other filters.
const (
	ConnectionManager    = "envoy.filters.network.http_connection_manager"
	oldConnectionManager = "envoy.http_connection_manager"
)

// objects has an empty message of the type that each applyTo changes.
var objects = map[networking.EnvoyFilter_ApplyTo]proto.Message{
	networking.EnvoyFilter_LISTENER:            &listenerv3.Listener{},
	networking.EnvoyFilter_FILTER_CHAIN:        &listenerv3.FilterChain{},
	networking.EnvoyFilter_LISTENER_FILTER:     &listenerv3.ListenerFilter{},
	networking.EnvoyFilter_NETWORK_FILTER:      &listenerv3.Filter{},
	networking.EnvoyFilter_HTTP_FILTER:         &hcmv3.HttpFilter{},
	networking.EnvoyFilter_ROUTE_CONFIGURATION: &routev3.RouteConfiguration{},
	networking.EnvoyFilter_VIRTUAL_HOST:        &routev3.VirtualHost{},
	networking.EnvoyFilter_HTTP_ROUTE:          &routev3.Route{},
	networking.EnvoyFilter_CLUSTER:             &clusterv3.Cluster{},
	networking.EnvoyFilter_EXTENSION_CONFIG:    &corev3.TypedExtensionConfig{},
	networking.EnvoyFilter_BOOTSTRAP:           &bootstrapv3.Bootstrap{},
}

// oldNames maps former names of filters to the present ones. Patches find a filter by either.
var oldNames = map[string]string{
	"envoy.buffer":                  "envoy.filters.http.buffer",
	"envoy.cors":                    "envoy.filters.http.cors",
	"envoy.csrf":                    "envoy.filters.http.csrf",
	"envoy.fault":                   "envoy.filters.http.fault",
	"envoy.grpc_http1_bridge":       "envoy.filters.http.grpc_http1_bridge",
	"envoy.grpc_json_transcoder":    "envoy.filters.http.grpc_json_transcoder",
	"envoy.grpc_web":                "envoy.filters.http.grpc_web",
	"envoy.health_check":            "envoy.filters.http.health_check",
	"envoy.ip_tagging":              "envoy.filters.http.ip_tagging",
	"envoy.lua":                     "envoy.filters.http.lua",
	"envoy.rate_limit":              "envoy.filters.http.ratelimit",
	"envoy.router":                  "envoy.filters.http.router",
	"envoy.listener.http_inspector": "envoy.filters.listener.http_inspector",
	"envoy.listener.original_dst":   "envoy.filters.listener.original_dst",
	"envoy.listener.original_src":   "envoy.filters.listener.original_src",
	"envoy.listener.proxy_protocol": "envoy.filters.listener.proxy_protocol",
	"envoy.listener.tls_inspector":  "envoy.filters.listener.tls_inspector",
	oldConnectionManager:            ConnectionManager,
	"envoy.mongo_proxy":             "envoy.filters.network.mongo_proxy",
	"envoy.ratelimit":               "envoy.filters.network.ratelimit",
	"envoy.redis_proxy":             "envoy.filters.network.redis_proxy",
	"envoy.tcp_proxy":               "envoy.filters.network.tcp_proxy",
}

// SameFilter reports whether a patch that looks for wanted finds the filter of this name.
func SameFilter(wanted, name string) bool {
	return wanted == name || oldNames[wanted] == name && name != ""
}

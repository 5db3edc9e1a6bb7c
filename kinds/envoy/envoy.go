// Package envoy knows Envoy's own messages: those that an EnvoyFilter changes, and what may be in them.
//
// An EnvoyFilter carries pieces of Envoy's configuration as free-form JSON, which no schema of ours describes. This package
// reads them as the messages that they are to become, with the paths of what is wrong, so that a mistake is told where it is
// written and not by the first Envoy that is given it. What an Envoy can be given is in stock.txt, taken from one.
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

// The filters in which others are.
const (
	ConnectionManager    = "envoy.filters.network.http_connection_manager"
	oldConnectionManager = "envoy.http_connection_manager"
)

// objects has an empty one of what each applyTo changes.
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

// oldNames are those that filters had once, and that Envoy's configuration of today no longer has. Patches find a filter by either.
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

// SameFilter tells whether a name that a patch looks for is that of a filter, or one that it had once.
func SameFilter(wanted, name string) bool {
	return wanted == name || oldNames[wanted] == name && name != ""
}

package filter

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	dnscachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	dynamicfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	sniproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// A service of DYNAMIC_DNS stands for many hosts. The proxy resolves the one that a request or a
// connection names: a filter puts its address into a cache, from which the cluster takes it.

// resolveRequests resolves the host of each request that is routed to a cluster of the cache.
func resolveRequests(cache *dnscachev3.DnsCacheConfig) *hcmv3.HttpFilter {
	return message.HTTPFilter("envoy.filters.http.dynamic_forward_proxy", &dynamicfilterv3.FilterConfig{
		ImplementationSpecifier: &dynamicfilterv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: cache},
	})
}

// resolveConnections resolves the server name that each TLS connection asks for.
func resolveConnections(v view.View, s *mesh.Service, port uint32) *listenerv3.Filter {
	const name = "envoy.extensions.filters.network.sni_dynamic_forward_proxy" // Istio's, which EnvoyFilters match
	return message.NetworkFilter(name, &sniproxyv3.FilterConfig{
		DnsCacheConfig: dns.ServiceCache(v, s),
		PortSpecifier:  &sniproxyv3.FilterConfig_PortValue{PortValue: port},
	})
}

// withResolvers adds, before the router, the filters that resolve hosts of services and, if the
// mesh says so, hosts that nobody declared.
func withResolvers(v view.View, filters []*hcmv3.HttpFilter, services []*mesh.Service) []*hcmv3.HttpFilter {
	last := len(filters) - 1
	out := slices.Clone(filters[:last])
	for _, s := range services {
		out = append(out, resolveRequests(dns.ServiceCache(v, s)))
	}
	if v.ResolvesUnknown() {
		out = append(out, resolveRequests(dns.UnknownCache(v)))
	}
	return append(out, filters[last])
}

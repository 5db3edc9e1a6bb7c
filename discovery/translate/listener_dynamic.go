package translate

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
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// A service of DYNAMIC_DNS stands for many hosts, of which the proxy resolves the one that a request or a connection
// asks for. A filter resolves the name into a cache, from which the cluster takes the address.

// resolveRequests resolves the host of each request that is routed to a cluster of the cache.
func resolveRequests(cache *dnscachev3.DnsCacheConfig) *hcmv3.HttpFilter {
	return message.HTTPFilter("envoy.filters.http.dynamic_forward_proxy", &dynamicfilterv3.FilterConfig{
		ImplementationSpecifier: &dynamicfilterv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: cache},
	})
}

// resolveConnections resolves the server name that each TLS connection asks for.
func resolveConnections(v view.View, s *mesh.Service, port uint32) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name: "envoy.extensions.filters.network.sni_dynamic_forward_proxy", // Istio's name for it, which EnvoyFilters match
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: message.Pack(&sniproxyv3.FilterConfig{
			DnsCacheConfig: dns.ServiceCache(v, s),
			PortSpecifier:  &sniproxyv3.FilterConfig_PortValue{PortValue: port},
		})},
	}
}

// dynamicServices are those services of an egress listener that are dynamic.
type dynamicServices []*mesh.Service

func dynamicIn(e *mesh.Egress) (out dynamicServices) {
	for _, s := range e.Services {
		if upstream.IsDynamic(s) {
			out = append(out, s)
		}
	}
	return out
}

// on keeps those that take requests on the port; on that of a proxy, whose requests name the port, on any.
func (d dynamicServices) on(port *mesh.Port) []*mesh.Service {
	return slices.DeleteFunc(slices.Clone(d), func(s *mesh.Service) bool {
		own := s.Port(port.Number)
		return port.Number != 0 && port.Protocol != mesh.ProtocolHTTPProxy && (own == nil || !own.Protocol.IsHTTP())
	})
}

// withResolvers adds, before the router, the filters that resolve hosts of services, and, where the mesh says so, of
// requests to unknown hosts.
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

package dns

import (
	dnscachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// ServiceCache keeps the addresses of hosts that requests for a service name. The service's cluster
// and the filters in front of it share the cache, and must say the same of it.
func ServiceCache(v view.View, s *mesh.Service) *dnscachev3.DnsCacheConfig {
	return &dnscachev3.DnsCacheConfig{
		Name: s.Hostname + "_dfp_dns_cache", DnsLookupFamily: lookupFamily(v), TypedDnsResolverConfig: ownResolver(v),
	}
}

// UnknownCache keeps the addresses of hosts that nobody declared, where the outbound traffic policy
// is ALLOW_ANY_DYNAMIC_DNS. How many it keeps is Envoy's own default.
func UnknownCache(v view.View) *dnscachev3.DnsCacheConfig {
	return &dnscachev3.DnsCacheConfig{
		Name: "allow_any_dfp_dns_cache", DnsLookupFamily: lookupFamily(v), MaxHosts: wrapperspb.UInt32(1024), TypedDnsResolverConfig: ownResolver(v),
	}
}

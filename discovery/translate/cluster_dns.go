package translate

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// machinesResolver asks whom the machine asks.
var machinesResolver = cares(&caresv3.CaresDnsResolverConfig{})

// cares opens a new UDP socket after 100 queries, so that a long-lived one cannot keep asking a server that is gone.
func cares(c *caresv3.CaresDnsResolverConfig) *corev3.TypedExtensionConfig {
	c.UdpMaxQueries = u32(100)
	return &corev3.TypedExtensionConfig{Name: "envoy.network.dns_resolver.cares", TypedConfig: pack(c)}
}

// resolver asks whom the proxy is told to ask.
func (v view) resolver() *corev3.TypedExtensionConfig {
	at := v.proxy.Resolver
	if !at.IsValid() {
		return machinesResolver
	}
	return cares(&caresv3.CaresDnsResolverConfig{Resolvers: []*corev3.Address{socketAddress(at.Addr().String(), uint32(at.Port()))}})
}

// ownResolver is nil where Envoy asks the machine's by itself.
func (v view) ownResolver() *corev3.TypedExtensionConfig {
	if !v.proxy.Resolver.IsValid() {
		return nil
	}
	return v.resolver()
}

// dnsJitter spreads the queries of clusters that were made at the same moment.
var dnsJitter = durationpb.New(100 * time.Millisecond)

// resolve sets how the names in a cluster are resolved. The mesh's refresh rate counts only while queries fail;
// otherwise records say themselves how long they hold.
func (v view) resolve(c *clusterv3.Cluster) {
	c.DnsLookupFamily = v.lookupFamily()
	c.TypedDnsResolverConfig = v.resolver()
	c.DnsJitter = dnsJitter                         //nolint:staticcheck // its successor is a cluster extension that older Envoys lack
	c.DnsRefreshRate = v.config.GetDnsRefreshRate() //nolint:staticcheck // as above
	c.RespectDnsTtl = true                          //nolint:staticcheck // as above
}

// lookupFamily asks for the addresses that the machine has a family for. With both, Envoy tries them in turn (happy eyeballs).
func (v view) lookupFamily() clusterv3.Cluster_DnsLookupFamily {
	switch {
	case v.ipv4 && v.ipv6:
		return clusterv3.Cluster_ALL
	case v.ipv6:
		return clusterv3.Cluster_V6_ONLY
	default:
		return clusterv3.Cluster_V4_ONLY
	}
}

// Package dns says how names become addresses: how Envoy resolves them, and what the resolver
// beside a sidecar answers.
package dns

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// machinesResolver asks the servers that the machine asks.
var machinesResolver = cares(&caresv3.CaresDnsResolverConfig{})

// cares opens a new UDP socket after 100 queries: a long-lived one could keep asking a server that
// is gone.
func cares(c *caresv3.CaresDnsResolverConfig) *corev3.TypedExtensionConfig {
	c.UdpMaxQueries = wrapperspb.UInt32(100)
	return &corev3.TypedExtensionConfig{Name: "envoy.network.dns_resolver.cares", TypedConfig: message.Pack(c)}
}

// resolver asks the server that the proxy was started with.
func resolver(v view.View) *corev3.TypedExtensionConfig {
	at := v.Proxy.Resolver
	if !at.IsValid() {
		return machinesResolver
	}
	return cares(&caresv3.CaresDnsResolverConfig{Resolvers: []*corev3.Address{message.SocketAddress(at.Addr().String(), uint32(at.Port()))}})
}

// ownResolver is nil if Envoy is to ask the machine's servers, which it does by itself.
func ownResolver(v view.View) *corev3.TypedExtensionConfig {
	if !v.Proxy.Resolver.IsValid() {
		return nil
	}
	return resolver(v)
}

// jitter spreads the queries of clusters that were made at the same moment.
var jitter = durationpb.New(100 * time.Millisecond)

// Resolve sets how the names in a cluster are resolved. The mesh's refresh rate counts only while
// queries fail; otherwise records say how long they hold.
func Resolve(v view.View, c *clusterv3.Cluster) {
	c.DnsLookupFamily = lookupFamily(v)
	c.TypedDnsResolverConfig = resolver(v)
	c.DnsJitter = jitter                            //nolint:staticcheck // its successor is a cluster extension that older Envoys lack
	c.DnsRefreshRate = v.Config.GetDnsRefreshRate() //nolint:staticcheck // as above
	c.RespectDnsTtl = true                          //nolint:staticcheck // as above
}

// lookupFamily asks for addresses of the families that the machine has. If it has both, Envoy tries
// them in turn (happy eyeballs).
func lookupFamily(v view.View) clusterv3.Cluster_DnsLookupFamily {
	switch {
	case v.IPv4 && v.IPv6:
		return clusterv3.Cluster_ALL
	case v.IPv6:
		return clusterv3.Cluster_V6_ONLY
	default:
		return clusterv3.Cluster_V4_ONLY
	}
}

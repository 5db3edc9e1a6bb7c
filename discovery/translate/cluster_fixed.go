package translate

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// blackHole has no endpoints: what is sent there is refused.
func (v view) blackHole() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 BlackHoleCluster,
		AltStatName:          statName(BlackHoleCluster),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       v.config.GetConnectTimeout(),
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
	}
}

// passthrough forwards to where the client meant to connect, in the protocol that it spoke.
func (v view) passthrough() *clusterv3.Cluster {
	d := v.passthroughDraft()
	return d.finish()
}

func (v view) passthroughDraft() draft {
	d := draft{
		Cluster: &clusterv3.Cluster{
			Name:                 PassthroughCluster,
			AltStatName:          statName(PassthroughCluster),
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
			LbPolicy:             clusterv3.Cluster_CLUSTER_PROVIDED,
		},
		http: &upstreamhttpv3.HttpProtocolOptions{
			CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(5 * time.Minute)},
			UpstreamProtocolOptions:   clientProtocol(),
		},
	}
	v.applyPool(&d, v.config.GetDefaultTrafficPolicy().GetConnectionPool())
	return d
}

// inboundPassthrough forwards to the local application on ports that no service names.
func (v view) inboundPassthrough() *clusterv3.Cluster {
	c := v.passthrough()
	c.Name = InboundPassthroughCluster
	c.UpstreamBindConfig = bindFrom(v.families(passthroughSourceIPv4, passthroughSourceIPv6))
	return c
}

// Connections from the sidecar to its application come from these addresses, which the redirection rules leave alone;
// from any other they would be redirected into the sidecar again.
const (
	passthroughSourceIPv4 = "127.0.0.6"
	passthroughSourceIPv6 = "::6"
)

func bindFrom(sources []string) *corev3.BindConfig {
	bind := &corev3.BindConfig{SourceAddress: socketAddress(sources[0], 0).GetSocketAddress()}
	for _, extra := range sources[1:] {
		bind.ExtraSourceAddresses = append(bind.ExtraSourceAddresses, &corev3.ExtraSourceAddress{
			Address: socketAddress(extra, 0).GetSocketAddress(),
		})
	}
	return bind
}

// families keeps, of an IPv4 and an IPv6 address, those that the proxy can use; IPv4 comes first.
func (v view) families(ipv4, ipv6 string) []string {
	switch {
	case v.ipv4 && v.ipv6:
		return []string{ipv4, ipv6}
	case v.ipv6:
		return []string{ipv6}
	default:
		return []string{ipv4}
	}
}

// wildcards are the addresses to listen on for everyone.
func (v view) wildcards() []string { return v.families("0.0.0.0", "::") }

// loopbacks are the addresses to listen on for the machine itself.
func (v view) loopbacks() []string { return v.families("127.0.0.1", "::1") }

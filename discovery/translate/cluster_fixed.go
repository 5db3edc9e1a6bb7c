package translate

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// blackHole has no endpoints: what is sent there is refused.
func blackHole(v view.View) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 naming.BlackHoleCluster,
		AltStatName:          naming.Stat(naming.BlackHoleCluster),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       v.Config.GetConnectTimeout(),
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
	}
}

// passthrough forwards to where the client meant to connect, in the protocol that it spoke.
func passthrough(v view.View) *clusterv3.Cluster {
	d := passthroughDraft(v)
	return d.finish()
}

func passthroughDraft(v view.View) draft {
	d := draft{
		Cluster: &clusterv3.Cluster{
			Name:                 naming.PassthroughCluster,
			AltStatName:          naming.Stat(naming.PassthroughCluster),
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
			LbPolicy:             clusterv3.Cluster_CLUSTER_PROVIDED,
		},
		http: &upstreamhttpv3.HttpProtocolOptions{
			CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(5 * time.Minute)},
			UpstreamProtocolOptions:   clientProtocol(),
		},
	}
	applyPool(v, &d, v.Config.GetDefaultTrafficPolicy().GetConnectionPool())
	return d
}

// inboundPassthrough forwards to the local application on ports that no service names.
func inboundPassthrough(v view.View) *clusterv3.Cluster {
	c := passthrough(v)
	c.Name = naming.InboundPassthroughCluster
	c.UpstreamBindConfig = bindFrom(v.Families(passthroughSourceIPv4, passthroughSourceIPv6))
	return c
}

// Connections from the sidecar to its application come from these addresses, which the redirection rules leave alone;
// from any other they would be redirected into the sidecar again.
const (
	passthroughSourceIPv4 = "127.0.0.6"
	passthroughSourceIPv6 = "::6"
)

func bindFrom(sources []string) *corev3.BindConfig {
	bind := &corev3.BindConfig{SourceAddress: message.SocketAddress(sources[0], 0).GetSocketAddress()}
	for _, extra := range sources[1:] {
		bind.ExtraSourceAddresses = append(bind.ExtraSourceAddresses, &corev3.ExtraSourceAddress{
			Address: message.SocketAddress(extra, 0).GetSocketAddress(),
		})
	}
	return bind
}

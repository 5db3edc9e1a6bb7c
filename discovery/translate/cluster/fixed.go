package cluster

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
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

// passthrough forwards to where the client meant to connect, in the protocol that the client spoke.
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
	d.applyPool(v, v.Config.GetDefaultTrafficPolicy().GetConnectionPool())
	return d
}

// inboundPassthrough forwards to the local application on ports that no service names.
func inboundPassthrough(v view.View) *clusterv3.Cluster {
	c := passthrough(v)
	c.Name = naming.InboundPassthroughCluster
	c.UpstreamBindConfig = bindFrom(v.Families(passthroughSourceIPv4, passthroughSourceIPv6))
	return c
}

// Connections from the sidecar to its application come from these addresses. The redirection leaves
// them alone; from any other address they would come back to the sidecar.
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

// unknownHosts sends requests to hosts that nobody declared, in the protocol that the client spoke,
// and by TLS if the mesh says so. It is for the outbound traffic policy ALLOW_ANY_DYNAMIC_DNS: the
// proxy finds the address of the host that a request names, wherever the client connected to.
func unknownHosts(v view.View) *clusterv3.Cluster {
	tls := v.Config.GetOutboundTrafficPolicy().GetTls()
	d := passthroughDraft(v)
	d.Name, d.AltStatName = naming.UnknownHostsCluster, naming.Stat(naming.UnknownHostsCluster)
	d.ConnectTimeout = v.Config.GetConnectTimeout()
	d.discoverPerRequest(dns.UnknownCache(v))
	nobody := upstream.Upstream{Service: &mesh.Service{}, Port: &mesh.Port{}}
	if context := d.context(v, nobody, tls); context != nil {
		d.TransportSocket = transport.TLS(context)
	}
	return d.finish()
}

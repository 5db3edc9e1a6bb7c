package bootstrap

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/agentsecret"
)

// agentCluster leads to the agent, over a socket that nobody else on the machine may reach.
func agentCluster(i *Identity) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 agentsecret.Cluster,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		LoadAssignment: oneEndpoint(agentsecret.Cluster, &corev3.Address{Address: &corev3.Address_Pipe{
			Pipe: &corev3.Pipe{Path: i.Socket},
		}}),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptions: http2Options(&corev3.Http2ProtocolOptions{}, nil)},
	}
}

// onceEach has each stream on a connection of its own. Discovery ends a stream when the certificate that its connection was opened with has
// ended, and the next stream has to show the one after it.
func onceEach() *corev3.HttpProtocolOptions {
	return &corev3.HttpProtocolOptions{MaxRequestsPerConnection: wrapperspb.UInt32(1)}
}

// mutualTLS shows the machine's certificate, and speaks to a discovery of the mesh and nobody else, whatever its address is.
func mutualTLS() *corev3.TransportSocket {
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
		AlpnProtocols:                  []string{"h2"},
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{agentsecret.Awaited(agentsecret.Certificate)},
		ValidationContextType:          &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: agentsecret.Awaited(agentsecret.Discovery)},
	}}
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(context)},
	}
}

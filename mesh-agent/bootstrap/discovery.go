package bootstrap

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// discoveryName is the cluster that configuration comes by. It leads to the agent, which has it from discovery. It is the cluster's name in Istio's bootstraps too; EnvoyFilters and dashboards know it.
const discoveryName = "xds-grpc"

// httpOptions is the key under which Envoy looks for a cluster's HTTP options.
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// A lost stream is tried again within reconnectFirst at the latest, then less and less often, up to reconnectLast, with
// full jitter. Envoy's own defaults (0.5 s and 30 s) leave a restarted discovery without its proxies for too long.
const (
	reconnectFirst = 200 * time.Millisecond
	reconnectLast  = 5 * time.Second
)

func adsConfig(variant XDS) *corev3.ApiConfigSource {
	apiType := corev3.ApiConfigSource_DELTA_GRPC
	if variant == SotW {
		apiType = corev3.ApiConfigSource_GRPC
	}
	return &corev3.ApiConfigSource{
		ApiType:                   apiType,
		TransportApiVersion:       corev3.ApiVersion_V3,
		SetNodeOnFirstMessageOnly: true,
		GrpcServices: []*corev3.GrpcService{{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: discoveryName,
				RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
					BaseInterval: durationpb.New(reconnectFirst),
					MaxInterval:  durationpb.New(reconnectLast),
				}},
			}},
		}},
	}
}

// agentCluster leads to the agent, over a socket that nobody else on the machine may reach.
func agentCluster(name, socket string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       durationpb.New(time.Second),
		LoadAssignment: oneEndpoint(name, &corev3.Address{Address: &corev3.Address_Pipe{
			Pipe: &corev3.Pipe{Path: socket},
		}}),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptions: http2Options()},
	}
}

func oneEndpoint(cluster string, address *corev3.Address) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
		}}}},
	}
}

func http2Options() *anypb.Any {
	return pack(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
			},
		},
	})
}

func pack(m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	if err != nil {
		panic(err) // only a message with invalid UTF-8 fails, and what is packed here was checked
	}
	return packed
}

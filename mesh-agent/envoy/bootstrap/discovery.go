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

// discoveryName is the cluster of the agent's xDS server. Istio's bootstraps use the same name,
// which EnvoyFilters and dashboards rely on.
const discoveryName = "xds-grpc"

// httpOptions is the key of a cluster's HTTP options.
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// Envoy reconnects a lost stream with full jitter: within the minimum at first, then with backoff
// up to the maximum. Its defaults (0.5 s and 30 s) would leave a restarted discovery without its
// proxies for too long.
const (
	minReconnectInterval = 200 * time.Millisecond
	maxReconnectInterval = 5 * time.Second
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
					BaseInterval: durationpb.New(minReconnectInterval),
					MaxInterval:  durationpb.New(maxReconnectInterval),
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
		panic(err) // only invalid UTF-8 fails, and the options were checked
	}
	return packed
}

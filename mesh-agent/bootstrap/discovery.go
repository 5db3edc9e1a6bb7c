package bootstrap

import (
	"net"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// discoveryName is the cluster's name in Istio's bootstraps too; EnvoyFilters and dashboards know it.
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

// discoveryCluster resolves a host name again and again, so that discovery may move.
func discoveryCluster(address string) *clusterv3.Cluster {
	host, _, _ := net.SplitHostPort(address)
	resolution := clusterv3.Cluster_STRICT_DNS
	if _, err := netip.ParseAddr(host); err == nil {
		resolution = clusterv3.Cluster_STATIC
	}
	return &clusterv3.Cluster{
		Name:                          discoveryName,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: resolution},
		DnsLookupFamily:               clusterv3.Cluster_ALL,
		ConnectTimeout:                durationpb.New(time.Second),
		LoadAssignment:                oneEndpoint(discoveryName, socketAddress(address)),
		UpstreamConnectionOptions:     &clusterv3.UpstreamConnectionOptions{TcpKeepalive: tcpKeepalive()},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptions: http2Options(pinged(), nil)},
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

// pinged notices within half a minute that a discovery has vanished without a word.
func pinged() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
		Interval: durationpb.New(20 * time.Second),
		Timeout:  durationpb.New(10 * time.Second),
	}}
}

func http2Options(options *corev3.Http2ProtocolOptions, common *corev3.HttpProtocolOptions) *anypb.Any {
	return pack(&httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: common,
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: options},
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

// tcpKeepalive covers what HTTP/2 pings cannot see: a firewall that forgets quiet connections.
func tcpKeepalive() *corev3.TcpKeepalive {
	return &corev3.TcpKeepalive{
		KeepaliveProbes:   wrapperspb.UInt32(3),
		KeepaliveTime:     wrapperspb.UInt32(60),
		KeepaliveInterval: wrapperspb.UInt32(10),
	}
}

package main

import (
	"net"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
)

const floorCluster = "bench-floor"

// envoyNode returns the node that Envoy sends to discovery.
func envoyNode() (*corev3.Node, error) {
	b, err := realenvoy.Bootstrap(realenvoy.Sidecar(), "127.0.0.1:1")
	return b.GetNode(), err
}

// startEnvoy starts one Envoy for product and floor: with the agent's bootstrap, but connected
// directly to discovery, and with a listener whose routes come from the floor's server.
func startEnvoy(binary, dir, xds string, f *floor, routeName string) (*process.Process, error) {
	b, err := realenvoy.Bootstrap(realenvoy.Sidecar(), xds)
	if err != nil {
		return nil, err
	}
	l, err := floorListener(f.port, routeName)
	if err != nil {
		return nil, err
	}
	c, err := grpcCluster(f.address())
	if err != nil {
		return nil, err
	}
	b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	return realenvoy.Start(binary, dir, b)
}

// floorListener gets its routes only from the floor's server, under their name in the product.
func floorListener(port int, routeName string) (*listenerv3.Listener, error) {
	router, err := anypb.New(&routerv3.Router{})
	if err != nil {
		return nil, err
	}
	source := &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: floorCluster},
			}}},
		}},
	}
	manager, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix:     "floor",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: source, RouteConfigName: routeName}},
		HttpFilters:    []*hcmv3.HttpFilter{{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router}}},
	})
	if err != nil {
		return nil, err
	}
	return &listenerv3.Listener{
		Name: "floor", Address: address("127.0.0.1", port),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "envoy.filters.network.http_connection_manager", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
		}}}},
	}, nil
}

func grpcCluster(hostPort string) (*clusterv3.Cluster, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	http2, err := anypb.New(&httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
		},
	}})
	if err != nil {
		return nil, err
	}
	return &clusterv3.Cluster{
		Name:                          floorCluster,
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: floorCluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: address(host, number)},
			}}},
		}}},
	}, nil
}

func address(host string, port int) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// startTimeout bounds the time until Envoy's first answer.
const startTimeout = 30 * time.Second

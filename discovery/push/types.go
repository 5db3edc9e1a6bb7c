package push

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

const typePrefix = "type.googleapis.com/"

// The types that Envoy is served.
var (
	ClusterType  = typeOf(&clusterv3.Cluster{})
	EndpointType = typeOf(&endpointv3.ClusterLoadAssignment{})
	ListenerType = typeOf(&listenerv3.Listener{})
	RouteType    = typeOf(&routev3.RouteConfiguration{})
	// VirtualHostType is for proxies that take virtual hosts apart from their route configurations.
	VirtualHostType = typeOf(&routev3.VirtualHost{})
	// ScopedRouteType is for routers with many hosts: a route configuration for each host.
	ScopedRouteType = typeOf(&routev3.ScopedRouteConfiguration{})
	// ExtensionType is for filters that name their configuration instead of having it inline.
	ExtensionType = typeOf(&corev3.TypedExtensionConfig{})
	SecretType    = typeOf(&tlsv3.Secret{})
	// NameTableType is for the resolver in the agent beside a sidecar.
	NameTableType = typeOf(&ndsv1.NameTable{})
)

func typeOf(m proto.Message) string {
	return typePrefix + string(m.ProtoReflect().Descriptor().FullName())
}

// types are all of them.
var types = []string{ClusterType, EndpointType, ExtensionType, ListenerType, RouteType, VirtualHostType, ScopedRouteType, SecretType, NameTableType}

package translate_test

import (
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// TestEnvoyAccepts puts the output of all inputs into bootstraps, and has a real Envoy check them.
func TestEnvoyAccepts(t *testing.T) {
	t.Parallel()
	for _, file := range inputs(t) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".in.yaml"), func(t *testing.T) {
			t.Parallel()
			in := readInput(t, file)
			envoytest.Validate(t, bootstrap(t, in, in.translate(t, in.resources)))
		})
	}
}

// bootstrap makes the resources static, with the routes inside the listeners: to check a bootstrap,
// Envoy asks no server for them.
func bootstrap(t *testing.T, in input, out output) *bootstrapv3.Bootstrap {
	t.Helper()
	ads := &clusterv3.Cluster{Name: "ads", ConnectTimeout: durationpb.New(1), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}}
	agent := proto.CloneOf(ads)
	agent.Name = "sds-grpc"
	listeners := make([]*listenerv3.Listener, len(out.listeners))
	for i, l := range out.listeners {
		listeners[i] = withoutSharing(t, withRoutes(t, l, out.routes))
	}
	return &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: in.Proxy.Node, Cluster: "test"},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: append([]*clusterv3.Cluster{ads, agent}, out.clusters...), Listeners: listeners,
		},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: "ads"},
			}}},
		}},
	}
}

// withoutSharing has each logger count by itself: an Envoy that only checks a configuration in which
// they share crashes once it has done so.
func withoutSharing(t *testing.T, l *listenerv3.Listener) *listenerv3.Listener {
	t.Helper()
	for _, chain := range append(l.FilterChains, l.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			if filter.GetTypedConfig() == nil { // it is discovered
				continue
			}
			config, err := filter.GetTypedConfig().UnmarshalNew()
			require.NoError(t, err)
			if logging, ok := config.(interface {
				proto.Message
				GetAccessLog() []*accesslogv3.AccessLog
			}); ok {
				countApart(t, logging.GetAccessLog())
				packed, err := anypb.New(logging)
				require.NoError(t, err)
				filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed}
			}
		}
	}
	return l
}

func countApart(t *testing.T, logs []*accesslogv3.AccessLog) {
	t.Helper()
	for _, log := range logs {
		counting := &statsv3.Config{}
		if !log.GetTypedConfig().MessageIs(counting) {
			continue
		}
		require.NoError(t, log.GetTypedConfig().UnmarshalTo(counting))
		counting.StatsScope.SharingName = ""
		packed, err := anypb.New(counting)
		require.NoError(t, err)
		log.ConfigType = &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed}
	}
}

func withRoutes(t *testing.T, l *listenerv3.Listener, routes []*routev3.RouteConfiguration) *listenerv3.Listener {
	t.Helper()
	l = proto.Clone(l).(*listenerv3.Listener)
	for _, chain := range append(l.FilterChains, l.GetDefaultFilterChain()) {
		for _, filter := range chain.GetFilters() {
			manager := &hcmv3.HttpConnectionManager{}
			if !filter.GetTypedConfig().MessageIs(manager) {
				continue
			}
			require.NoError(t, filter.GetTypedConfig().UnmarshalTo(manager))
			inlineRoutes(t, manager, routes)
			packed, err := anypb.New(manager)
			require.NoError(t, err)
			filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed}
		}
	}
	return l
}

func inlineRoutes(t *testing.T, manager *hcmv3.HttpConnectionManager, routes []*routev3.RouteConfiguration) {
	t.Helper()
	wanted := manager.GetRds().GetRouteConfigName()
	if wanted == "" {
		return
	}
	for _, r := range routes {
		if r.GetName() == wanted {
			manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: r}
			return
		}
	}
	t.Fatalf("a listener asks for the route %s, and there is none", wanted)
}

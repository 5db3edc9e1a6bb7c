package proxy_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// topic serves the same to all clients.
func serveTopic(t *testing.T) (topic *served.Topic, address string) {
	t.Helper()
	topic, _, address = serveADS(t)
	return topic, address
}

func serveADS(t *testing.T) (topic *served.Topic, server *ads.Server, address string) {
	t.Helper()
	topic = &served.Topic{}
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	server = ads.NewServer(ads.Config{
		Open: func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return topic.Subscribe(), nil },
		Named: func(typeURL string) bool {
			return typeURL == proxy.Endpoints.URL() || typeURL == proxy.Routes.URL()
		},
	})
	server.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, <-served)
	})
	return topic, server, l.Addr().String()
}

// publish sets all resources to this version.
func publish(t *testing.T, topic *served.Topic, version string, resources map[proxy.Type]map[string]proto.Message) {
	t.Helper()
	sets := map[string]*served.Set{}
	for kind, named := range resources {
		var all []*served.Resource
		for name, m := range named {
			body, err := anypb.New(m)
			require.NoError(t, err)
			all = append(all, &served.Resource{Name: name, Version: version, Body: body})
		}
		sets[kind.URL()] = served.NewSet(all...)
	}
	topic.Publish(&served.Snapshot{Revision: version, Sets: sets})
}

func cluster(name, service string) proto.Message {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service},
	}
}

func listener(t *testing.T, routes string) proto.Message {
	t.Helper()
	manager, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix: "s", RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: routes}},
	})
	require.NoError(t, err)
	filters := []*listenerv3.Filter{{Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}}
	return &listenerv3.Listener{Name: "l", DefaultFilterChain: &listenerv3.FilterChain{Filters: filters}}
}

// heard has the responses sent to a proxy.
type heard struct {
	mu     sync.Mutex
	kinds  []proxy.Type
	bytes  map[proxy.Type]int
	served chan time.Time
	ended  chan error
}

func run(t *testing.T, address string, incremental bool, expect proxy.Expected) *heard {
	t.Helper()
	h := &heard{bytes: map[proxy.Type]int{}, served: make(chan time.Time, 1), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		h.ended <- proxy.Run(ctx, proxy.Options{
			Address: address, Node: &corev3.Node{Id: "p"}, Incremental: incremental, Expect: expect,
			Heard: func(r proxy.Response) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.kinds, h.bytes[r.Type] = append(h.kinds, r.Type), len(r.Bytes)
			},
			Served: func(at time.Time) { h.served <- at },
		})
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return h
}

func (h *heard) await(t *testing.T) {
	t.Helper()
	select {
	case <-h.served:
	case err := <-h.ended:
		t.Fatal(err)
	case <-time.After(limit):
		t.Fatal("not served")
	}
}

func TestServedWhenComplete(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		topic, address := serveTopic(t)
		publish(t, topic, "1", map[proxy.Type]map[string]proto.Message{
			proxy.Clusters: {
				"one": cluster("one", ""), "two": cluster("two", "other"),
				"fixed": &clusterv3.Cluster{Name: "fixed", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}},
			},
			proxy.Endpoints: {
				"one": &endpointv3.ClusterLoadAssignment{ClusterName: "one"}, "other": &endpointv3.ClusterLoadAssignment{ClusterName: "other"},
				"unasked": &endpointv3.ClusterLoadAssignment{ClusterName: "unasked"},
			},
			proxy.Listeners: {"l": listener(t, "80")},
			proxy.Routes: {
				"80":      &routev3.RouteConfiguration{Name: "80", VirtualHosts: []*routev3.VirtualHost{{Name: "a"}, {Name: "b"}}},
				"unasked": &routev3.RouteConfiguration{Name: "unasked"},
			},
		})
		h := run(t, address, incremental, proxy.Expected{Endpoints: 2, VirtualHosts: 2})
		h.await(t)
		h.mu.Lock()
		require.Equal(t, []proxy.Type{proxy.Clusters, proxy.Endpoints, proxy.Listeners, proxy.Routes}, h.kinds)
		require.Positive(t, h.bytes[proxy.Routes])
		h.mu.Unlock()
	}
}

// Virtual hosts may arrive in any number of responses: the proxy counts them.
func TestVHDS(t *testing.T) {
	t.Parallel()
	topic, address := serveTopic(t)
	mesh := map[proxy.Type]map[string]proto.Message{
		proxy.Clusters:     {"one": cluster("one", "")},
		proxy.Endpoints:    {"one": &endpointv3.ClusterLoadAssignment{ClusterName: "one"}},
		proxy.Listeners:    {"l": listener(t, "80")},
		proxy.Routes:       {"80": &routev3.RouteConfiguration{Name: "80", Vhds: &routev3.Vhds{ConfigSource: &corev3.ConfigSource{}}}},
		proxy.VirtualHosts: {"80/a": &routev3.VirtualHost{Name: "a"}},
	}
	publish(t, topic, "1", mesh)
	all := run(t, address, true, proxy.Expected{Endpoints: 1, VirtualHosts: 1})
	more := run(t, address, true, proxy.Expected{Endpoints: 1, VirtualHosts: 2})
	all.await(t)
	mesh[proxy.VirtualHosts]["80/b"] = &routev3.VirtualHost{Name: "b"}
	publish(t, topic, "2", mesh)
	more.await(t)
	more.mu.Lock()
	require.True(t, slices.Contains(more.kinds, proxy.VirtualHosts))
	more.mu.Unlock()
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, <-run(t, "127.0.0.1:1", true, proxy.Expected{}).ended, "proxy p")

	_, address := serveTopic(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, proxy.Run(ctx, proxy.Options{Address: address, Node: &corev3.Node{Id: "p"}}))
}

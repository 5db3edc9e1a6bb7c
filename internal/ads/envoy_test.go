package ads_test

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

const types = "type.googleapis.com/envoy.config."

const (
	cds = types + "cluster.v3.Cluster"
	eds = types + "endpoint.v3.ClusterLoadAssignment"
	lds = types + "listener.v3.Listener"
	rds = types + "route.v3.RouteConfiguration"
)

// envoyMesh is four clusters with endpoints, and four listeners with routes. One of each may be
// wrong.
type envoyMesh struct {
	t       *testing.T
	version string
	wrong   map[string]string // how, by type
}

func (m *envoyMesh) snapshot() *served.Snapshot {
	all := map[string][]*served.Resource{}
	for i := range 4 {
		name, wrong := fmt.Sprintf("n%d", i), map[string]string{}
		if i == 2 {
			wrong = m.wrong
		}
		m.add(all, cds, name, m.cluster(name, wrong[cds]), served.Ref{TypeURL: eds, Name: name})
		m.add(all, eds, name, m.endpoints(name, wrong[eds]))
		m.add(all, lds, name, m.listener(name, wrong[lds]))
		m.add(all, rds, name, m.route(name, wrong[rds]))
	}
	s := &served.Snapshot{Revision: m.version, Sets: sets{}}
	for typeURL, resources := range all {
		s.Sets[typeURL] = served.NewSet(resources...)
	}
	return s
}

func (m *envoyMesh) add(all map[string][]*served.Resource, typeURL, name string, message proto.Message, refs ...served.Ref) {
	body, err := anypb.New(message)
	require.NoError(m.t, err)
	all[typeURL] = append(all[typeURL], &served.Resource{Name: name, Version: m.version + m.wrong[typeURL], Body: body, Refs: refs})
}

func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(0), // a test is to wait for its event, and Envoy for the server
	}
}

func (m *envoyMesh) cluster(name, wrong string) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: overADS()}, AltStatName: m.version,
	}
	switch wrong {
	case "said by name": // found when it is applied
		c.LbPolicy = clusterv3.Cluster_LOAD_BALANCING_POLICY_CONFIG // of which there is none
	case "too late": // found when it is warming already
		c.LbPolicy = clusterv3.Cluster_RING_HASH
		c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{
			MinimumRingSize: wrapperspb.UInt64(20), MaximumRingSize: wrapperspb.UInt64(10),
		}}
	case "said without": // found when it is read
		c.HealthChecks = []*corev3.HealthCheck{{}}
	}
	return c
}

func (m *envoyMesh) endpoints(name, wrong string) *endpointv3.ClusterLoadAssignment {
	a := &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: &endpointv3.ClusterLoadAssignment_Policy{}}
	for factor, version := range versions {
		if version == m.version {
			a.Policy.OverprovisioningFactor = wrapperspb.UInt32(factor)
		}
	}
	if wrong != "" {
		a.Endpoints = []*endpointv3.LocalityLbEndpoints{{ // of which there may be one
			LbEndpoints: []*endpointv3.LbEndpoint{{}},
			LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
				LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{LedsConfig: overADS(), LedsCollectionName: "xdstp://test/" + name + "/*"},
			},
		}}
	}
	return a
}

func (m *envoyMesh) listener(name, wrong string) *listenerv3.Listener {
	router, err := anypb.New(&routerv3.Router{})
	require.NoError(m.t, err)
	hcm, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix: m.version, HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router}}},
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: overADS(), RouteConfigName: name}},
	})
	require.NoError(m.t, err)
	if wrong != "" {
		if hcm, err = anypb.New(&httpv3.HttpProtocolOptions{}); err != nil { // which is no filter
			m.t.Fatal(err)
		}
	}
	return &listenerv3.Listener{
		Name: name, StatPrefix: m.version,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
		}}},
		FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{Name: "filter", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: hcm}}},
		}},
	}
}

func (m *envoyMesh) route(name, wrong string) *routev3.RouteConfiguration {
	domains := []string{m.version}
	if wrong != "" {
		domains = []string{"twice", "twice"}
	}
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{Name: "host", Domains: domains}}}
}

// versions gives each version a number, for messages that have no place for a text.
var versions = map[uint32]string{140: "v1", 150: "version2", 160: "version3"}

// A real Envoy that refuses one resource of four has the three others, and of that one the old
// version. It may name the resource, as it does of clusters and listeners that it cannot apply, or
// not. Of the refused response it may have applied the others (of clusters and listeners), those
// before the wrong one (of endpoints and routes), or none, as when it cannot read one.
func TestAnEnvoyThatRefusesOneResourceHasAllOthers(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]map[string]string{
		"a cluster":                 {cds: "said by name"},
		"a cluster that says no":    {cds: "said without"},
		"endpoints":                 {eds: "wrong"},
		"a listener":                {lds: "wrong"},
		"a route":                   {rds: "wrong"},
		"a cluster and a route":     {cds: "said without", rds: "wrong"},
		"endpoints and a listener":  {eds: "wrong", lds: "wrong"},
		"a cluster and a listener ": {cds: "said by name", lds: "wrong"},
	} {
		for _, api := range []corev3.ApiConfigSource_ApiType{corev3.ApiConfigSource_DELTA_GRPC, corev3.ApiConfigSource_GRPC} {
			t.Run(name+"/"+api.String(), func(t *testing.T) { refusedByEnvoy(t, api, wrong) })
		}
	}
}

func forEnvoy(patience time.Duration) func(*ads.Config) {
	return func(cfg *ads.Config) {
		cfg.Quarantine, cfg.Patience = true, patience
		cfg.Named = func(typeURL string) bool { return typeURL != cds && typeURL != lds }
		cfg.Plan = ads.Plan{Stages: []ads.Stage{
			{Types: []string{cds, eds}, Part: ads.Make},
			{Types: []string{lds}, Part: ads.Make, Overlap: true},
			{Types: []string{rds}},
			{Types: []string{lds}, Part: ads.Break},
			{Types: []string{cds, eds}, Part: ads.Break, Overlap: true},
		}}
	}
}

// If Envoy 1.40 refuses a cluster that is already warming, it answers for no clusters until that
// one is replaced.
func TestAnEnvoyThatStopsAnsweringIsSentTheCorrection(t *testing.T) {
	t.Parallel()
	for _, api := range []corev3.ApiConfigSource_ApiType{corev3.ApiConfigSource_DELTA_GRPC, corev3.ApiConfigSource_GRPC} {
		t.Run(api.String(), func(t *testing.T) {
			t.Parallel()
			s := serve(t, forEnvoy(100*time.Millisecond))
			mesh := &envoyMesh{t: t, version: "v1"}
			s.topic.Publish(mesh.snapshot())
			e := envoytest.Start(t, adsBootstrap(t, api, s.conn.Target()))
			settled(t, s, e, "v1", nil)
			mesh.version, mesh.wrong = "version2", map[string]string{cds: "too late"}
			s.topic.Publish(mesh.snapshot())
			s.heard.await(t, "acked "+rds+" version2") // the rest of the change did not wait for it
			mesh.version, mesh.wrong = "version3", nil
			s.topic.Publish(mesh.snapshot())
			settled(t, s, e, "version3", nil)
			for what, version := range appliedBy(t, e) {
				require.Equal(t, "version3", version, what)
			}
		})
	}
}

func refusedByEnvoy(t *testing.T, api corev3.ApiConfigSource_ApiType, wrong map[string]string) {
	t.Parallel()
	s := serve(t, forEnvoy(limit))
	mesh := &envoyMesh{t: t, version: "v1"}
	s.topic.Publish(mesh.snapshot())
	e := envoytest.Start(t, adsBootstrap(t, api, s.conn.Target()))
	settled(t, s, e, "v1", nil)

	mesh.version, mesh.wrong = "version2", wrong
	s.topic.Publish(mesh.snapshot())
	settled(t, s, e, "version2", wrong)
	applied := appliedBy(t, e)
	for _, typeURL := range []string{cds, eds, lds, rds} {
		for i := range 4 {
			name, want := fmt.Sprintf("n%d", i), "version2"
			if wrong[typeURL] != "" && i == 2 {
				want = "v1"
			}
			require.Equal(t, want, applied[typeURL+" "+name], "%s %s, of %v, after %v", typeURL, name, applied, s.heard.all())
		}
	}
}

// settled waits until the Envoy has all of a revision that it accepts. The Envoy's answers pace it.
func settled(t *testing.T, s *server, e *envoytest.Envoy, revision string, wrong map[string]string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < limit; e.Get(t, "/ready") {
		if streams := s.ads.Streams(); len(streams) == 1 && hasSettled(streams[0], revision, wrong) {
			return
		}
	}
	require.Fail(t, "it never settles", "%+v after %v", s.ads.Streams()[0].Types(), s.heard.all())
}

func hasSettled(s *ads.Stream, revision string, wrong map[string]string) bool {
	state, types := s.State(), s.Types()
	if state.Revision != revision || state.Stage != 0 || len(types) != 4 {
		return false
	}
	for _, state := range types {
		refused := 0
		if wrong[state.TypeURL] != "" {
			refused = 1
		}
		if state.Behind || state.Unanswered || state.InDoubt > 0 || len(state.Refused) != refused || state.Has.Len() != 4 {
			return false
		}
	}
	return true
}

// appliedBy returns the versions of the resources that an Envoy has.
func appliedBy(t *testing.T, e *envoytest.Envoy) map[string]string {
	t.Helper()
	applied := map[string]string{}
	for _, dumped := range e.ConfigDump(t).GetConfigs() {
		config, err := dumped.UnmarshalNew()
		require.NoError(t, err)
		switch c := config.(type) {
		case *adminv3.ClustersConfigDump:
			for _, one := range slices.Concat(c.GetDynamicActiveClusters(), c.GetDynamicWarmingClusters()) {
				cluster := unpacked(t, one.GetCluster(), &clusterv3.Cluster{})
				applied[cds+" "+cluster.GetName()] = cluster.GetAltStatName()
			}
		case *adminv3.EndpointsConfigDump:
			for _, one := range c.GetDynamicEndpointConfigs() {
				a := unpacked(t, one.GetEndpointConfig(), &endpointv3.ClusterLoadAssignment{})
				applied[eds+" "+a.GetClusterName()] = versions[a.GetPolicy().GetOverprovisioningFactor().GetValue()]
			}
		case *adminv3.ListenersConfigDump:
			for _, one := range c.GetDynamicListeners() {
				for _, state := range []*adminv3.ListenersConfigDump_DynamicListenerState{one.GetActiveState(), one.GetWarmingState()} {
					if state != nil {
						applied[lds+" "+one.GetName()] = unpacked(t, state.GetListener(), &listenerv3.Listener{}).GetStatPrefix()
					}
				}
			}
		case *adminv3.RoutesConfigDump:
			for _, one := range c.GetDynamicRouteConfigs() {
				r := unpacked(t, one.GetRouteConfig(), &routev3.RouteConfiguration{})
				applied[rds+" "+r.GetName()] = r.GetVirtualHosts()[0].GetDomains()[0]
			}
		}
	}
	return applied
}

func unpacked[M proto.Message](t *testing.T, body *anypb.Any, into M) M {
	t.Helper()
	require.NoError(t, body.UnmarshalTo(into))
	return into
}

func adsBootstrap(t *testing.T, api corev3.ApiConfigSource_ApiType, address string) *bootstrapv3.Bootstrap {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal(fmt.Appendf(nil, `{
	  "node": {"id": "real", "cluster": "test"},
	  "dynamic_resources": {
	    "ads_config": {"api_type": %q, "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
	    "cds_config": {"ads": {}, "resource_api_version": "V3"}, "lds_config": {"ads": {}, "resource_api_version": "V3"}},
	  "static_resources": {"clusters": [{
	    "name": "xds", "type": "STATIC",
	    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
	      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {"http2_protocol_options": {}}}},
	    "load_assignment": {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address":
	      {"address": %q, "port_value": %s}}}}]}]}}]}}`, api.String(), host, port), b))
	return b
}

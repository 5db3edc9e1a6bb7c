package demand_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

const (
	clusters  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listeners = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routes    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	hosts     = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

func resource(t *testing.T, name, version string, m proto.Message) *served.Resource {
	t.Helper()
	body, err := anypb.New(m)
	require.NoError(t, err)
	return served.NewResource(name, version, body)
}

func to(cluster string) *routev3.Route {
	return &routev3.Route{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}}},
	}
}

func host(t *testing.T, name, cluster string, domains ...string) *served.Resource {
	t.Helper()
	return resource(t, name, cluster+strings.Join(domains, " "), &routev3.VirtualHost{Name: name, Domains: domains, Routes: []*routev3.Route{to(cluster)}})
}

func configuration(t *testing.T, name string) *served.Resource {
	t.Helper()
	return resource(t, name, "1", &routev3.RouteConfiguration{Name: name, IgnorePortInHostMatching: name == "80", Vhds: &routev3.Vhds{}})
}

// class is what a class has: a listener for TCP, the routes of two ports with a virtual host for
// unknown hosts, and clusters for each virtual host.
func class(t *testing.T, virtualHosts ...*served.Resource) map[string]*served.Set {
	t.Helper()
	tcp, err := anypb.New(&tcpproxyv3.TcpProxy{ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: "outbound|3306||db"}})
	require.NoError(t, err)
	filter := &listenerv3.Filter{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: tcp}}
	sets := map[string]*served.Set{
		listeners: served.NewSet(resource(t, "db", "1", &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}}})),
		routes:    served.NewSet(configuration(t, "80"), configuration(t, "8080")),
		hosts:     served.NewSet(host(t, "80/all", "PassthroughCluster", "*")),
	}
	for _, name := range []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||a", "outbound|80||b", "outbound|80||c"} {
		sets[clusters] = sets[clusters].With([]*served.Resource{resource(t, name, "1", &clusterv3.Cluster{Name: name})}, nil)
	}
	sets[hosts] = sets[hosts].With(virtualHosts, nil)
	return sets
}

// whole is the Whole of a class that shares its hosts with no other.
type whole struct {
	*demand.Whole

	hosts *demand.Hosts
}

func newWhole() *whole { return &whole{demand.NewWhole(), demand.NewHosts()} }

func (w *whole) Update(sets map[string]*served.Set) { w.Whole.Update(sets, w.hosts) }

func names(set *served.Set) []string {
	var all []string
	for r := range set.All() {
		name := r.Name
		if r.Body == nil {
			name = "no " + name
		}
		all = append(all, name)
	}
	return all
}

func domainsIn(t *testing.T, r *served.Resource) []string {
	t.Helper()
	m := &routev3.VirtualHost{}
	require.NoError(t, r.Body.UnmarshalTo(m))
	return m.GetDomains()
}

func TestAProxyIsGivenWhatItAsksFor(t *testing.T) {
	t.Parallel()
	all := newWhole()
	sets := class(t, host(t, "80/a:80", "outbound|80||a", "a", "a.example"), host(t, "80/b:80", "outbound|80||b", "b"))
	all.Update(sets)
	asked := demand.NewAsked()

	part := all.Part(asked)
	require.Equal(t, []string{"80/all", "no 8080/"}, names(part[hosts]), "what all have, and an answer about each route configuration")
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db"}, names(part[clusters]), "the clusters that listeners name are no matter of requests")
	require.Same(t, sets[listeners], part[listeners])

	asked.Hear(hosts, []string{"*", "80/a.example:80", "80/unknown", "8080/a"}, nil)
	part = all.Part(asked)
	require.Equal(t, []string{"80/a:80", "80/all", "no 80/unknown", "no 8080/", "no 8080/a"}, names(part[hosts]))
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||a"}, names(part[clusters]))

	same := all.Part(asked)
	require.Same(t, part[hosts], same[hosts])
	require.Same(t, part[clusters], same[clusters])
}

// Scripts name clusters in their code, and modules in what they are configured with.
func TestAProxyHasTheClustersThatItsExtensionsAsk(t *testing.T) {
	t.Parallel()
	const extensions = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	extension := func(name, text string) *served.Resource {
		config, err := anypb.New(wrapperspb.String(text))
		require.NoError(t, err)
		return resource(t, name, text, &corev3.TypedExtensionConfig{Name: name, TypedConfig: config})
	}
	all, sets := newWhole(), class(t, host(t, "80/a:80", "outbound|80||a", "a"))
	sets[extensions] = served.NewSet(extension("script", `handle:httpCall('outbound|80||b', {[":path"] = "/"}, "", 100)`), extension("module", `{"ask":["outbound|80||c"]}`))
	all.Update(sets)
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||b", "outbound|80||c"}, names(all.Part(demand.NewAsked())[clusters]))
}

func TestAnotherNameForAHostIsAnswered(t *testing.T) {
	t.Parallel()
	all, asked := newWhole(), demand.NewAsked()
	all.Update(class(t, host(t, "80/a:80", "outbound|80||a", "a", "a.example")))
	asked.Hear(hosts, []string{"80/a"}, nil)
	before := all.Part(asked)[hosts].Get("80/a:80")
	asked.Hear(hosts, []string{"80/a.example"}, nil)
	require.NotEqual(t, before.Version, all.Part(asked)[hosts].Get("80/a:80").Version, "the proxy waits for this name too")
}

func TestAChangeReachesWhoHasAsked(t *testing.T) {
	t.Parallel()
	all, asked, other := newWhole(), demand.NewAsked(), demand.NewAsked()
	sets := class(t, host(t, "80/a:80", "outbound|80||a", "a"))
	all.Update(sets)
	asked.Hear(hosts, []string{"80/a", "80/late"}, nil)
	first, untouched := all.Part(asked), all.Part(other)
	change := func(upsert *served.Resource, removed ...string) {
		sets = maps.Clone(sets)
		sets[hosts] = sets[hosts].With([]*served.Resource{upsert}, removed)
		all.Update(sets)
	}

	change(host(t, "80/a:80", "outbound|80||b", "a"))
	now := all.Part(asked)
	require.NotEqual(t, first[hosts].Get("80/a:80").Version, now[hosts].Get("80/a:80").Version)
	require.Contains(t, names(now[clusters]), "outbound|80||b")
	require.NotContains(t, names(now[clusters]), "outbound|80||a")

	change(host(t, "80/late:80", "outbound|80||c", "late"))
	require.Equal(t, []string{"80/a:80", "80/all", "80/late:80", "no 8080/"}, names(all.Part(asked)[hosts]))

	change(host(t, "80/other:80", "outbound|80||c", "late"), "80/late:80") // its domain goes to another host
	require.Equal(t, []string{"80/a:80", "80/all", "80/other:80", "no 8080/"}, names(all.Part(asked)[hosts]))

	change(host(t, "80/x:80", "outbound|80||c", "x"), "80/a:80", "80/other:80")
	require.Equal(t, []string{"no 80/a", "80/all", "no 80/late", "no 8080/"}, names(all.Part(asked)[hosts]))

	require.Same(t, untouched[hosts], all.Part(other)[hosts])
	require.Same(t, untouched[clusters], all.Part(other)[clusters])
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db"}, names(all.Part(asked)[clusters]))
}

// A proxy keeps the virtual hosts that it has: it may be using them.
func TestWhatAProxyHasFromBefore(t *testing.T) {
	t.Parallel()
	all, back, changed := newWhole(), demand.NewAsked(), demand.NewAsked()
	sets := class(t, host(t, "80/a:80", "outbound|80||a", "a"), host(t, "80/b:80", "outbound|80||b", "b"))
	all.Update(sets)

	back.Hear(hosts, []string{"*", "80/unknown"}, map[string]string{"80/a:80": "1", "80/gone:80": "1", "80/unknown": "none", "8080/": "none"})
	part := all.Part(back)
	require.Equal(t, []string{"80/a:80", "80/all", "no 80/unknown", "no 8080/"}, names(part[hosts]))
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||a"}, names(part[clusters]))

	changed.Keep(sets)
	part = all.Part(changed)
	require.Equal(t, []string{"80/a:80", "80/all", "80/b:80", "no 8080/"}, names(part[hosts]))
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||a", "outbound|80||b"}, names(part[clusters]))
}

// A proxy that reconnects names its clusters before its hosts, and may be using them.
func TestClustersStayUntilAProxyThatComesBackHasSaidWhatItUses(t *testing.T) {
	t.Parallel()
	all, asked := newWhole(), demand.NewAsked()
	all.Update(class(t, host(t, "80/a:80", "outbound|80||a", "a")))
	asked.Hear(clusters, nil, map[string]string{"outbound|80||a": "1", "outbound|80||b": "1", "gone": "1"})
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||a", "outbound|80||b"}, names(all.Part(asked)[clusters]))
	asked.Hear(hosts, []string{"*", "80/a"}, map[string]string{"80/a:80": "1"})
	require.Equal(t, []string{"PassthroughCluster", "outbound|3306||db", "outbound|80||a"}, names(all.Part(asked)[clusters]))
}

func TestAHostForManyMatchesOnlyWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	all, asked := newWhole(), demand.NewAsked()
	all.Update(class(t, host(t, "80/w:80", "outbound|80||a", "*.example"), host(t, "80/b:80", "outbound|80||b", "b.example")))
	asked.Hear(hosts, []string{"80/x.example", "80/b.example"}, nil)
	part := all.Part(asked)
	for name, conditional := range map[string]bool{"80/all": true, "80/w:80": true, "80/b:80": false} {
		m := &routev3.VirtualHost{}
		require.NoError(t, part[hosts].Get(name).Body.UnmarshalTo(m))
		require.Len(t, m.GetRoutes()[0].GetMatch().GetFilterState(), map[bool]int{true: 1}[conditional], name)
		require.NotNil(t, m.GetRoutes()[0].GetRoute().GetIdleTimeout(), "a request that has its route may take its time")
	}
}

func TestTheHostIsTheOneThatEnvoyWouldChoose(t *testing.T) {
	t.Parallel()
	all := newWhole()
	all.Update(class(t,
		host(t, "80/exact", "x", "a.example.com", "[fd00::1]"), host(t, "80/suffix", "x", "*.example.com"), host(t, "80/longer", "x", "*.b.example.com"),
		host(t, "80/partial", "x", "*-v1.example.com"), host(t, "80/prefix", "x", "www.*"), host(t, "80/port", "x", "p:80"),
		host(t, "8080/port", "x", "p:8080"), host(t, "8080/plain", "x", "p"), host(t, "8080/Upper", "x", "UPPER.example"),
	))
	for alias, want := range map[string]string{
		"80/a.example.com": "80/exact", "80/A.Example.COM": "80/exact", "80/a.example.com:8443": "80/exact",
		"80/b.example.com": "80/suffix", "80/c.b.example.com": "80/longer", "80/x-v1.example.com": "80/partial",
		"80/.example.com": "no", "80/example.com": "no", "80/www.example.com": "80/suffix", "80/www.org": "80/prefix", "80/www.": "no",
		"80/[fd00::1]": "80/exact", "80/[fd00::1]:80": "80/exact", "80/[fd00::2]:80": "no",
		"80/p:80": "no", "8080/p:8080": "8080/port", "8080/p": "8080/plain", "8080/p:1": "no", "8080/upper.example": "8080/Upper",
		"8080/a.example.com": "no", "81/p": "no",
	} {
		asked := demand.NewAsked()
		asked.Hear(hosts, []string{alias}, nil)
		given := slices.DeleteFunc(names(all.Part(asked)[hosts]), func(name string) bool { return name == "no 8080/" || name == "80/all" })
		require.Equal(t, []string{strings.Replace(want, "no", "no "+alias, 1)}, given, alias)
	}
}

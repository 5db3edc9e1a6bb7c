package ads_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

const vhds = types + "route.v3.VirtualHost"

// hostsMesh is the listeners, routes and virtual hosts of an Envoy.
type hostsMesh struct {
	*envoyMesh
	s   *server
	all map[string][]*served.Resource
}

func newHostsMesh(t *testing.T, planned bool) *hostsMesh {
	t.Helper()
	return &hostsMesh{
		envoyMesh: &envoyMesh{t: t, version: "1"}, all: map[string][]*served.Resource{},
		s: serve(t, func(cfg *ads.Config) {
			forEnvoy(limit)(cfg)
			cfg.Belongs = map[string]string{vhds: rds}
			if cfg.Plan.Stages[2].Types = []string{rds, vhds}; !planned {
				cfg.Plan = ads.Plan{}
			}
		}),
	}
}

// listening returns a mesh of one listener, and an Envoy that has these hosts of it. Each is given
// with its domain.
func listening(t *testing.T, hosts ...string) (*hostsMesh, *envoytest.Envoy) {
	t.Helper()
	m := newHostsMesh(t, true)
	m.put(lds, "80", "1", m.listener("80", ""))
	m.routesWithoutHosts("80")
	for _, host := range hosts {
		name, domain, _ := strings.Cut(host, " ")
		m.host(name, domain)
	}
	m.publish("r1")
	e := envoytest.Start(t, adsBootstrap(t, corev3.ApiConfigSource_DELTA_GRPC, m.s.conn.Target()))
	m.has(e, "80", hosts...)
	return m, e
}

// put makes a resource, or another version of it.
func (m *hostsMesh) put(typeURL, name, version string, message proto.Message) {
	m.remove(typeURL, name)
	m.version = version
	m.add(m.all, typeURL, name, message)
}

func (m *hostsMesh) remove(typeURL, name string) {
	m.all[typeURL] = slices.DeleteFunc(m.all[typeURL], func(r *served.Resource) bool { return r.Name == name })
}

func (m *hostsMesh) routesWithoutHosts(name string) {
	m.put(rds, name, "1", &routev3.RouteConfiguration{Name: name, Vhds: &routev3.Vhds{ConfigSource: overADS()}})
}

// host is a virtual host, whose domain is its version.
func (m *hostsMesh) host(name, version string) {
	m.put(vhds, name, version, &routev3.VirtualHost{Name: name, Domains: []string{version}})
}

func (m *hostsMesh) publish(revision string) {
	all := sets{}
	for typeURL, resources := range m.all {
		all[typeURL] = served.NewSet(resources...)
	}
	m.s.publish(revision, all)
}

// hostsIn lists the virtual hosts, with their domains, of the route configuration that an Envoy
// has.
func hostsIn(t *testing.T, e *envoytest.Envoy, configuration string) (hosts []string) {
	t.Helper()
	for _, dumped := range e.ConfigDump(t).GetConfigs() {
		dump := &adminv3.RoutesConfigDump{}
		if !dumped.MessageIs(dump) {
			continue
		}
		for _, one := range unpacked(t, dumped, dump).GetDynamicRouteConfigs() {
			r := unpacked(t, one.GetRouteConfig(), &routev3.RouteConfiguration{})
			if r.GetName() != configuration {
				continue
			}
			for _, host := range r.GetVirtualHosts() {
				hosts = append(hosts, host.GetName()+" "+host.GetDomains()[0])
			}
		}
	}
	return hosts
}

// has waits until an Envoy has these hosts in a route configuration. The Envoy's answers pace it.
func (m *hostsMesh) has(e *envoytest.Envoy, configuration string, hosts ...string) {
	m.t.Helper()
	var got []string
	for began := time.Now(); time.Since(began) < limit; {
		if got = hostsIn(m.t, e, configuration); slices.Equal(got, hosts) {
			return
		}
	}
	require.Equal(m.t, hosts, got, "%v", m.s.heard.all())
}

func (m *hostsMesh) refusesNothing() {
	m.t.Helper()
	for _, event := range m.s.heard.all() {
		require.NotContains(m.t, event, "nacked")
	}
}

// Listeners that need the same route configuration come and go. One is removed while it still waits
// for another configuration. Then Envoy forgets the hosts of the first. If a new listener comes in
// the same response, Envoy only asks for that configuration again.
func TestAnEnvoyThatAsksForARouteAgainGetsItsHosts(t *testing.T) {
	t.Parallel()
	for name, planned := range map[string]bool{"in its turn": true, "at once": false} {
		t.Run(name, func(t *testing.T) { t.Parallel(); asksAgain(t, newHostsMesh(t, planned)) })
	}
}

func asksAgain(t *testing.T, m *hostsMesh) {
	t.Helper()
	for _, name := range []string{"80", "unix:///run/a.sock", "[::1]:81"} {
		m.put(lds, name, "1", m.listener(name, ""))
		m.routesWithoutHosts(name)
		m.host(name+"/a", "one")
	}
	m.publish("r1")
	e := envoytest.Start(t, adsBootstrap(t, corev3.ApiConfigSource_DELTA_GRPC, m.s.conn.Target()))
	for _, name := range []string{"80", "unix:///run/a.sock", "[::1]:81"} {
		m.has(e, name, name+"/a one")
	}

	waiting := m.listener("82", "")
	forever := m.listener("never", "").GetFilterChains()[0]
	forever.FilterChainMatch = &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(1)}
	waiting.Name, waiting.FilterChains = "first", append(waiting.GetFilterChains(), forever)
	m.put(lds, "first", "1", waiting)
	m.routesWithoutHosts("82")
	m.host("82/a", "one")
	m.host("82/b", "two")
	m.publish("r2")
	m.has(e, "82", "82/a one", "82/b two")

	next := m.listener("82", "")
	next.Name = "second"
	m.remove(lds, "first")
	m.put(lds, "second", "1", next)
	m.host("82/b", "three")
	m.publish("r3")
	m.has(e, "82", "82/a one", "82/b three")
	m.has(e, "80", "80/a one")
	m.refusesNothing()
}

// A domain moves from one host to another, two hosts swap theirs, and one gets the domain of a
// removed one.
func TestAnEnvoyTakesADomainThatMoves(t *testing.T) {
	t.Parallel()
	m, e := listening(t, "80/a one", "80/b two")

	m.host("80/a", "two")
	m.host("80/b", "one")
	m.publish("r2")
	m.has(e, "80", "80/a two", "80/b one")
	m.remove(vhds, "80/b")
	m.host("80/c", "one")
	m.publish("r3")
	m.has(e, "80", "80/a two", "80/c one")
	m.remove(vhds, "80/c")
	m.host("80/a", "one")
	m.publish("r4")
	m.has(e, "80", "80/a one")
	m.refusesNothing()
}

// Envoy refuses a response because of one host. Of the others, sent alone, it refuses the one that
// gets a domain before the other has dropped it.
func TestARefusedHostStopsNoDomainFromMoving(t *testing.T) {
	t.Parallel()
	m, e := listening(t, "80/a one", "80/b two", "80/c three")

	m.host("80/a", "two")
	m.host("80/b", "four")
	m.put(vhds, "80/c", "bad", &routev3.VirtualHost{Name: "80/c", Domains: []string{"twice", "twice"}})
	m.publish("r2")
	m.has(e, "80", "80/a two", "80/b four", "80/c three")

	m.host("80/c", "five")
	m.publish("r3")
	m.has(e, "80", "80/a two", "80/b four", "80/c five")
}

// Envoy accepts two hosts that swap their domains together or not at all. A wrong host beside them
// makes it refuse all at first.
func TestARefusedHostStopsNoSwapOfDomains(t *testing.T) {
	t.Parallel()
	m := newHostsMesh(t, true)
	m.put(lds, "80", "1", m.listener("80", ""))
	m.routesWithoutHosts("80")
	for name, domain := range map[string]string{"a": "one", "b": "two", "c": "three", "d": "four", "e": "five"} {
		m.host("80/"+name, domain)
	}
	m.publish("r1")
	e := envoytest.Start(t, adsBootstrap(t, corev3.ApiConfigSource_DELTA_GRPC, m.s.conn.Target()))
	m.has(e, "80", "80/a one", "80/b two", "80/c three", "80/d four", "80/e five")

	m.host("80/a", "two")
	m.host("80/b", "three")
	m.host("80/c", "one")
	m.put(vhds, "80/d", "bad", &routev3.VirtualHost{Name: "80/d", Domains: []string{"twice", "twice"}})
	m.put(vhds, "80/e", "bad", &routev3.VirtualHost{Name: "80/e", Domains: []string{"thrice", "thrice"}})
	m.publish("r2")
	m.has(e, "80", "80/a two", "80/b three", "80/c one", "80/d four", "80/e five")

	// One of the hosts that swap is wrong, and is corrected.
	m.host("80/a", "four")
	m.put(vhds, "80/d", "worse", &routev3.VirtualHost{Name: "80/d", Domains: []string{"two", "twice", "twice"}})
	m.host("80/e", "six")
	m.publish("r3")
	m.has(e, "80", "80/a two", "80/b three", "80/c one", "80/d four", "80/e six")
	m.host("80/d", "two")
	m.publish("r4")
	m.has(e, "80", "80/a four", "80/b three", "80/c one", "80/d two", "80/e six")

	// A wrong host keeps the domain of another until it is corrected.
	m.host("80/b", "two")
	m.put(vhds, "80/d", "bad", &routev3.VirtualHost{Name: "80/d", Domains: []string{"seven", "twice", "twice"}})
	m.host("80/c", "eight")
	m.publish("r5")
	m.has(e, "80", "80/a four", "80/b three", "80/c eight", "80/d two", "80/e six")
	m.host("80/d", "seven")
	m.publish("r6")
	m.has(e, "80", "80/a four", "80/b two", "80/c eight", "80/d seven", "80/e six")
}

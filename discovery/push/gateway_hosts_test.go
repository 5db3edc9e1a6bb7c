package push_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// router is one that the Gateways of these tests select.
func router() *corev3.Node {
	n := node("10.9.0.1", "edge")
	n.Id = strings.Replace(n.GetId(), "sidecar", "router", 1)
	n.Metadata.Fields["LABELS"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": structpb.NewStringValue("edge")}})
	return n
}

// gate is a Gateway with servers of plain HTTP: "80", or "80 redirect".
func gate(name string, servers ...string) string {
	var all []string
	for _, s := range servers {
		port, redirect, _ := strings.Cut(s, " ")
		all = append(all, fmt.Sprintf("{port: {number: %[1]s, name: http-%[1]s, protocol: HTTP}, hosts: [h1.example.com, '*']%[2]s}", port, map[string]string{"redirect": ", tls: {httpsRedirect: true}"}[redirect]))
	}
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %s, namespace: edge}
spec: {selector: {app: edge}, servers: [%s]}
`, name, strings.Join(all, ", "))
}

// boundRule is a rule of some Gateways, with a number in it.
func boundRule(name, hosts, gateways, more string, number int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: edge}
spec:
  hosts: [%s]
  gateways: [%s]
  http: [{%s headers: {response: {set: {number: "%d"}}}, route: [{destination: {host: s0.team-0.svc.cluster.local}}]}]
`, name, hosts, gateways, more, number)
}

// TestRulesOfGatewaysEqualATranslationFromScratch has random rules of a few gateways come, change
// and go, often for the same hosts, rarely for wildcards or upper case, and sometimes changes
// something else.
func TestRulesOfGatewaysEqualATranslationFromScratch(t *testing.T) {
	t.Parallel()
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(t, shard, 40) {
				dice := rand.New(rand.NewPCG(seed, 4))
				b, proxy := newBench(), &envoy{router(), true}
				b.apply(t, meshService(0, 1, 0)+"---"+gate("one", "80", "81")+"---"+gate("two", "81")+"---"+gate("three", "80"))
				s := b.open(t, proxy)
				for step := range 25 {
					what := gatewayStep(dice)
					if name, gone := strings.CutPrefix(what, "remove "); gone {
						b.remove(ruleKey(t, name))
					} else {
						b.apply(t, what)
					}
					require.Empty(t, b.differs(t, proxy, s), "seed %d, step %d: %s", seed, step, what)
				}
				s.Close()
			}
		})
	}
}

func ruleKey(t testing.TB, name string) kinds.Key {
	t.Helper()
	k, ok := kinds.Lookup("networking.istio.io", "VirtualService")
	require.True(t, ok)
	return kinds.Key{Kind: k, Namespace: "edge", Name: name}
}

func gatewayStep(dice *rand.Rand) string {
	one := func(of ...string) string { return of[dice.IntN(len(of))] }
	name := fmt.Sprint("r", dice.IntN(10))
	switch dice.IntN(24) {
	case 0, 1, 2, 3, 4:
		return "remove " + name
	case 5:
		return meshService(0, 1+dice.IntN(2), dice.IntN(3))
	case 6:
		return gate("three", one("80", "81", "80 redirect"))
	}
	host := func() string { return fmt.Sprintf("h%d.example.com", dice.IntN(6)) }
	hosts := host()
	for range dice.IntN(3) {
		if more := host(); !strings.Contains(hosts, more) {
			hosts += ", " + more
		}
	}
	switch dice.IntN(12) {
	case 0:
		hosts += ", '*.wild.example.com'"
	case 1, 2:
		hosts = strings.Replace(hosts, "h", "H", 1)
	}
	return boundRule(name, hosts, one("one", "two", "three", "one, two", "one, two, three"), one("", "match: [{uri: {prefix: /a}}],", "match: [{port: 81}],"), dice.IntN(4))
}

// Only what the rule is for is made again.
func TestARuleOfAGatewayRemakesItsHosts(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, meshService(0, 1, 0)+"---"+gate("one", "80", "81"))
	for i := range 20 {
		b.apply(t, boundRule(fmt.Sprint("r", i), fmt.Sprintf("h%d.example.com", i), "one", "", 0))
	}
	s := b.connect(t, router(), true)
	scopes := func() *served.Set { return s.Snapshot().Sets[push.ScopedRouteType] }
	before, sets := scopes(), s.Snapshot().Sets
	require.Equal(t, 42, before.Len())

	b.apply(t, boundRule("r7", "h7.example.com", "one", "", 1))
	require.Equal(t, []string{"http.80/h7.example.com", "http.81/h7.example.com"}, scopes().Changed(before))
	before = scopes()
	b.apply(t, boundRule("more", "h7.example.com, h20.example.com", "one", "match: [{port: 80}],", 0))
	require.Equal(t, []string{"http.80/h20.example.com", "http.80/h7.example.com"}, scopes().Changed(before))
	before = scopes()
	b.remove(ruleKey(t, "r8"))
	require.Equal(t, []string{"http.80/h8.example.com", "http.81/h8.example.com"}, scopes().Changed(before))
	require.Nil(t, scopes().Get("http.80/h8.example.com"))
	before = scopes()
	b.apply(t, boundRule("wild", "'*.wild.example.com'", "one", "", 0))
	require.Equal(t, []string{"http.80/*", "http.81/*"}, scopes().Changed(before))
	require.Same(t, sets[push.ListenerType], s.Snapshot().Sets[push.ListenerType])
	require.Same(t, sets[push.ClusterType], s.Snapshot().Sets[push.ClusterType])
	hosts := s.Snapshot().Sets[push.VirtualHostType]
	b.apply(t, boundRule("r9", "h9.example.com", "one", "", 1))
	require.Equal(t, []string{"http.80/h9.example.com", "http.81/h9.example.com"}, s.Snapshot().Sets[push.VirtualHostType].Changed(hosts), "connections to a former listener may last")
	require.Same(t, sets[push.RouteType], s.Snapshot().Sets[push.RouteType])

	// First few hosts, so that listeners have virtual hosts again, and then many.
	for i := range 20 {
		if i != 8 {
			b.remove(ruleKey(t, fmt.Sprint("r", i)))
		}
	}
	require.Empty(t, foundByHost(s))
	require.NotNil(t, scopes().Get("http.80/h20.example.com"), "connections to a former listener may last")
	b.apply(t, boundRule("r1", "h1.example.com", "one", "", 0))
	require.Equal(t, []string{"http.80", "http.81"}, foundByHost(s))
}

// foundByHost are the routes that listeners find by hosts.
func foundByHost(s *served.Subscriber) (all []string) {
	for r := range s.Snapshot().Sets[push.ListenerType].All() {
		_, h := read(r.Body)
		all = append(all, h.scopes...)
	}
	return all
}

func TestWhichRoutersTakeRoutesByHost(t *testing.T) {
	t.Parallel()
	config := meshService(0, 1, 0) + "---" + gate("one", "80") + "---" + boundRule("r1", "h1.example.com", "one", "", 0) + "---" + boundRule("r2", "h2.example.com", "one", "", 0)
	b := newBench()
	b.apply(t, config)
	for name, proxy := range map[string]struct {
		node                *corev3.Node
		incremental, scoped bool
	}{
		"an Envoy":                      {version(router(), "envoy", 1, 40), true, true},
		"a state of the world":          {version(router(), "envoy", 1, 40), false, false},
		"an Envoy that was not tried":   {version(router(), "envoy", 1, 39), true, false},
		"another client":                {version(router(), "gRPC Go", 1, 80), true, false},
		"who says nothing of itself":    {router(), true, false},
		"an Envoy that is no gateway's": {version(node("10.9.0.2", "edge"), "envoy", 1, 40), true, false},
	} {
		s, err := b.Open(t.Context(), proxy.node, proxy.incremental)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		require.Equal(t, proxy.scoped, s.Snapshot().Sets[push.ScopedRouteType].Len() == 3, name)
		if strings.HasPrefix(proxy.node.GetId(), "router") {
			require.Equal(t, proxy.scoped, len(foundByHost(s)) == 1, name)
		}
	}
	b = newBench()
	b.DivideByHostsFrom(0)
	b.apply(t, config)
	require.Zero(t, b.connect(t, router(), true).Snapshot().Sets[push.ScopedRouteType].Len())
}

package relay_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Envoy starts with what it accepted last; when discovery is back, only changes travel.
func TestEnvoyStartsWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh, w := &served.Topic{}, world{clusters: 20, port: backend(t), route: "c0"}
			publish(t, mesh, w)
			discovery := start(t, mesh, "")
			before := run(t, "", relay.Options{}, discovery.address)
			once(t, before.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
				answers(t, e, "c0")
				first := before.store.Versions(rds)["r"]
				w.route = "c7"
				publish(t, mesh, w)
				answers(t, e, "c7")
				require.Equal(t, relay.Synced, before.Status().State)
				require.Eventually(t, func() bool { // Envoy says that it has accepted that after it does
					return before.store.Versions(rds)["r"] != first && before.store.Has(eds, "c19")
				}, limit, 5*time.Millisecond)
			})
			before.stop()
			discovery.server.Stop()

			metrics := prometheus.NewRegistry()
			after := run(t, before.folder, relay.Options{Metrics: metrics}, discovery.address)
			began := time.Now()
			again := envoytest.Start(t, after.bootstrap(t, form))
			answers(t, again, "c7")
			t.Logf("an Envoy was ready %s after its start", time.Since(began).Round(time.Millisecond))
			require.Equal(t, relay.LastGood, after.Status().State)
			require.Contains(t, after.log.String(), "Envoy starts with the last good configuration")
			require.Equal(t, 1, testutil.CollectAndCount(metrics, "pgmesh_mesh_agent_serving_last_good"))
			require.Contains(t, gather(t, metrics), "serving_last_good 1")

			stop := traffic(t, again)
			back := start(t, mesh, discovery.address)
			after.awaitState(t, relay.Synced)
			w.route = "c3"
			publish(t, mesh, w)
			answers(t, again, "c3")
			sent, failure := stop()
			require.NoError(t, failure, "after %d requests", sent)
			require.Contains(t, gather(t, metrics), "serving_last_good 0")
			if form == forms[0] {
				back.mu.Lock()
				defer back.mu.Unlock()
				require.Equal(t, map[string]int{rds: 1}, nonzero(back.sent), "nothing travels that is unchanged")
			}
		})
	}
}

// once runs an Envoy while do runs, and waits for its end.
func once(t *testing.T, b *bootstrapv3.Bootstrap, do func(t *testing.T, e *envoytest.Envoy)) {
	t.Helper()
	require.True(t, t.Run("before", func(t *testing.T) { do(t, envoytest.Start(t, b)) }))
}

func nonzero(counts map[string]int) map[string]int {
	out := map[string]int{}
	for name, n := range counts {
		if n != 0 {
			out[name] = n
		}
	}
	return out
}

func gather(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	var text strings.Builder
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if g := m.GetGauge(); g != nil {
				fmt.Fprintln(&text, f.GetName(), g.GetValue())
			}
		}
	}
	return text.String()
}

// A refused response reaches discovery and is not stored.
func TestRefusedResponseIsNotStored(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh, w := &served.Topic{}, world{clusters: 3, port: backend(t), route: "c0"}
			publish(t, mesh, w)
			discovery := start(t, mesh, "")
			before := run(t, "", relay.Options{}, discovery.address)
			once(t, before.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
				answers(t, e, "c0")
				first, cluster := before.store.Versions(rds)["r"], before.store.Versions(cds)["c1"]
				require.NotEmpty(t, cluster)
				w.wrong, w.route = true, "c2"
				publish(t, mesh, w)
				answers(t, e, "c2")
				discovery.await(t, func() bool { return discovery.refused > 0 })
				require.Contains(t, before.Status().Refusal, "c1")
				require.Eventually(t, func() bool { return before.store.Versions(rds)["r"] != first }, limit, 5*time.Millisecond)
				require.Equal(t, cluster, before.store.Versions(cds)["c1"])
			})
			before.stop()
			discovery.server.Stop()

			after := run(t, before.folder, relay.Options{}, discovery.address)
			again := envoytest.Start(t, after.bootstrap(t, form))
			answers(t, again, "c2")
			require.NotContains(t, after.log.String(), "Envoy refuses something of the last good")
		})
	}
}

// What Envoy refuses is a trouble until it need not have it any more.
func TestARefusedListenerIsATrouble(t *testing.T) {
	t.Parallel()
	application, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { application.Close() })
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh, w := &served.Topic{}, world{clusters: 1, port: backend(t), route: "c0"}
			publish(t, mesh, w)
			discovery := start(t, mesh, "")
			a := run(t, "", relay.Options{}, discovery.address)
			once(t, a.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
				answers(t, e, "c0")
				require.Empty(t, a.Report().Trouble)
				w.taken = application.Addr().(*net.TCPAddr).Port
				publish(t, mesh, w)
				require.Eventually(t, func() bool { return a.Report().Trouble != "" }, limit, 5*time.Millisecond)
				at := application.Addr().String()
				require.Contains(t, a.Report().Trouble, "Envoy refuses a Listener: ")
				require.Contains(t, a.Report().Trouble, "cannot bind '"+at+"': Address already in use. Another program has "+at+", probably the application itself: ")
				require.NotContains(t, a.Report().Trouble+a.Report().LastNACK, "\n")
				w.taken = 0
				if form == bootstrap.SotW {
					w.taken = int(envoytest.Port(t)) // who goes back to what Envoy has sends nothing
				}
				publish(t, mesh, w)
				require.Eventually(t, func() bool { return a.Report().Trouble == "" }, limit, 5*time.Millisecond)
				require.Contains(t, a.Report().LastNACK, at)
			})
		})
	}
}

func TestAnotherReplicaTakesOverAndNoRequestFails(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh, w := &served.Topic{}, world{clusters: 10, port: backend(t), route: "c0"}
			publish(t, mesh, w)
			all := []*replica{start(t, mesh, ""), start(t, mesh, "")}
			a := run(t, "", relay.Options{}, all[0].address, all[1].address)
			e := envoytest.Start(t, a.bootstrap(t, form))
			answers(t, e, "c0")
			stop := traffic(t, e)
			used, other := all[0], all[1]
			if len(used.nodes) == 0 {
				used, other = other, used
			}
			began := time.Now()
			used.server.Stop()
			other.await(t, func() bool { return len(other.nodes) > 0 })
			came := time.Since(began)
			w.route = "c5"
			publish(t, mesh, w)
			answers(t, e, "c5")
			t.Logf("Envoy was with the other replica after %s, and had what was published then after %s", came.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			require.Less(t, came, 2*time.Second)
			sent, failure := stop()
			require.NoError(t, failure, "after %d requests", sent)
			require.Equal(t, []string{"sidecar~127.0.0.1~box.shop~mesh.test"}, other.nodes)
			if form == forms[0] {
				other.mu.Lock()
				defer other.mu.Unlock()
				require.Equal(t, map[string]int{rds: 1}, nonzero(other.sent))
			}
		})
	}
}

// However damaged the file is, Envoy starts with what is left of it.
func TestEnvoyStartsFromADamagedFile(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh, w := &served.Topic{}, world{clusters: 20, port: backend(t), route: "c0"}
			publish(t, mesh, w)
			discovery := start(t, mesh, "")
			before := run(t, "", relay.Options{}, discovery.address)
			once(t, before.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
				answers(t, e, "c0")
				require.Eventually(t, func() bool {
					return before.store.Has(rds, "r") && before.store.Has(lds, "in") && before.store.Has(eds, "c19")
				}, limit, 5*time.Millisecond)
			})
			before.stop()
			discovery.server.Stop()

			file := filepath.Join(before.folder, "config", "000001.records")
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			at := indexOfEndpoints(t, content, "c13")
			content[at] ^= 4
			require.NoError(t, os.WriteFile(file, append(content, "\xa7PGM and then the power failed"...), 0o600))

			after := run(t, before.folder, relay.Options{}, discovery.address)
			require.Contains(t, after.log.String(), "cannot be read, and is left out")
			require.Contains(t, after.log.String(), "broken_records=1 torn=true")
			require.False(t, after.store.Has(eds, "c13"))
			again := envoytest.Start(t, after.bootstrap(t, form))
			answers(t, again, "c0")
		})
	}
}

// indexOfEndpoints returns an offset within the record of a cluster's endpoints.
func indexOfEndpoints(t *testing.T, content []byte, cluster string) int {
	t.Helper()
	for i := range content {
		if string(content[i:min(i+len(eds), len(content))]) != eds {
			continue
		}
		if rest := content[i+len(eds) : i+len(eds)+10]; string(rest[2:2+len(cluster)]) == cluster {
			return i + len(eds) + 2
		}
	}
	t.Fatal("they are not there")
	return 0
}

// An agent that lost its folder gets the configuration again from discovery, while Envoy keeps
// running with it.
func TestMissingResourcesAreRequestedAgain(t *testing.T) {
	t.Parallel()
	mesh, w := &served.Topic{}, world{clusters: 20, port: backend(t), route: "c0"}
	publish(t, mesh, w)
	discovery := start(t, mesh, "")
	before := run(t, "", relay.Options{}, discovery.address)
	e := envoytest.Start(t, before.bootstrap(t, forms[0]))
	answers(t, e, "c0")
	want := map[string]int{"clusters": 20, "endpoints": 20, "listeners": 1, "routes": 1}
	require.Eventually(t, func() bool { return reflect.DeepEqual(want, before.store.Summary().Resources) }, limit, 5*time.Millisecond)
	stop := traffic(t, e)
	before.stop()
	discovery.server.Stop()
	another := start(t, mesh, "")
	require.NoError(t, os.RemoveAll(filepath.Join(before.folder, "config")))
	again := run(t, before.folder, relay.Options{}, another.address)
	require.Eventually(t, func() bool { return reflect.DeepEqual(want, again.store.Summary().Resources) }, limit, 5*time.Millisecond)
	sent, failure := stop()
	require.NoError(t, failure, "after %d requests", sent)
	again.stop()

	// With the folder, nothing travels.
	third := start(t, mesh, "")
	last := run(t, before.folder, relay.Options{}, third.address)
	third.await(t, func() bool { return len(third.nodes) > 0 })
	w.route = "c5"
	publish(t, mesh, w)
	answers(t, e, "c5")
	require.Equal(t, map[string]int{rds: 1}, nonzero(third.sent))
	require.NotContains(t, last.log.String(), "was not kept here")
}

// A discovery may be connected but unable to answer, because what it depends on is away.
func TestEnvoyStartsWhileDiscoveryIsSilent(t *testing.T) { //nolint:tparallel // its subtest is what comes first
	t.Parallel()
	mesh, w := &served.Topic{}, world{clusters: 3, port: backend(t), route: "c0"}
	publish(t, mesh, w)
	discovery := start(t, mesh, "")
	before := run(t, "", relay.Options{}, discovery.address)
	once(t, before.bootstrap(t, forms[0]), func(t *testing.T, e *envoytest.Envoy) {
		answers(t, e, "c0")
		require.Eventually(t, func() bool { return before.store.Has(rds, "r") && before.store.Has(lds, "in") }, limit, 5*time.Millisecond)
	})
	before.stop()

	nothing := &served.Topic{}
	silent := start(t, nothing, "")
	after := run(t, before.folder, relay.Options{}, silent.address)
	again := envoytest.Start(t, after.bootstrap(t, forms[0]))
	answers(t, again, "c0")
	require.Equal(t, relay.LastGood, after.Status().State)
	stop := traffic(t, again)
	silent.await(t, func() bool { return len(silent.nodes) >= 2 }) // it comes back, and waits
	w.route = "c1"
	publish(t, nothing, w)
	answers(t, again, "c1")
	require.Equal(t, relay.Synced, after.Status().State)
	sent, failure := stop()
	require.NoError(t, failure, "after %d requests", sent)
	require.Equal(t, map[string]int{rds: 1}, nonzero(silent.sent))
}

// The name table is for the agent alone; Envoy never sees it.
func TestNamesComeOnEnvoysStream(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			mesh, w := &served.Topic{}, world{clusters: 1, port: backend(t), route: "c0"}
			publish(t, mesh, w, table(t, "1", "cart.shop"))
			discovery := start(t, mesh, "")
			told := make(chan *ndsv1.NameTable, 10)
			names := func(n *ndsv1.NameTable) { told <- n }
			before := run(t, "", relay.Options{Names: names}, discovery.address)
			once(t, before.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
				require.Contains(t, (<-told).GetTable(), "cart.shop")
				answers(t, e, "c0")
				name := map[string]string{"delta": "names"}[string(form)]
				first := before.store.Versions(nds)[name]
				publish(t, mesh, w, table(t, "2", "till.shop"))
				require.Contains(t, (<-told).GetTable(), "till.shop")
				require.Len(t, discovery.nodes, 1)
				require.Zero(t, discovery.refused)
				require.Eventually(t, func() bool { return before.store.Versions(nds)[name] != first && before.store.Has(rds, "r") }, limit, 5*time.Millisecond)
			})
			before.stop()
			discovery.server.Stop()

			after := run(t, before.folder, relay.Options{Names: names}, discovery.address)
			require.Contains(t, (<-told).GetTable(), "till.shop", "it is known before there is a discovery")
			again := envoytest.Start(t, after.bootstrap(t, form))
			answers(t, again, "c0")
			back := start(t, mesh, discovery.address)
			after.awaitState(t, relay.Synced)
			publish(t, mesh, w, table(t, "3", "desk.shop"))
			for n := range told {
				if n.GetTable()["desk.shop"] != nil {
					break
				}
				require.Equal(t, string(forms[1]), string(form), "what was kept does not travel again")
			}
			require.Zero(t, back.refused)
		})
	}
}

func table(t *testing.T, version, host string) *served.Resource {
	t.Helper()
	body, err := anypb.New(&ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{host: {Ips: []string{"10.0.0.1"}}}})
	require.NoError(t, err)
	return &served.Resource{Name: "names", Version: version, Body: body}
}

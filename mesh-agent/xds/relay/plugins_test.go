package relay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
)

// wasmPlugin is a plugin of the listener.
type wasmPlugin struct {
	name, url, digest, version string
	failOpen                   bool
	more                       string // more variables, as JSON
}

// filters adds the plugins to the resources, and returns the filters that name them.
func (w world) filters(add func(typeURL, name, version string, m proto.Message, text string, refs ...served.Ref)) string {
	var filters strings.Builder
	for _, p := range w.plugins {
		policy := map[bool]string{true: "FAIL_OPEN", false: "FAIL_CLOSED"}[p.failOpen]
		text := fmt.Sprintf(`{"name": %q, "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "config": {
			"name": %[1]q, "failure_policy": %q, "vm_config": {"runtime": "envoy.wasm.runtime.v8",
			"code": {"remote": {"http_uri": {"uri": %q, "cluster": "_", "timeout": "3s"}, "sha256": %q}},
			"environment_variables": {"key_values": {"ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION": %q, "OWN": "kept"%s}}}}}}`,
			p.name, policy, p.url, p.digest, p.version, p.more)
		add(ecds, p.name, wasmtest.Digest([]byte(text)), &corev3.TypedExtensionConfig{}, text)
		fmt.Fprintf(&filters, `{"name": %q, "config_discovery": {"config_source": %s, "type_urls": [
			"type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"]}},`, p.name, overADS)
	}
	return filters.String()
}

// fetching may fetch from a registry of the test.
func fetching(r *wasmtest.Registry) *wasm.Options {
	o := wasm.Defaults()
	o.Allowed, o.Insecure, o.Wait = []string{"127.0.0.0/8"}, []string{r.Host}, 4*time.Second
	return &o
}

// scene is a mesh with one machine.
type scene struct {
	registry  *wasmtest.Registry
	mesh      *served.Topic
	world     world
	discovery *replica
	agent     *agent
}

func newScene(t *testing.T, o *wasm.Options, registry *wasmtest.Registry, plugins ...wasmPlugin) *scene {
	t.Helper()
	s := &scene{registry: registry, mesh: &served.Topic{}, world: world{clusters: 2, port: backend(t), route: "c0", plugins: plugins}}
	publish(t, s.mesh, s.world)
	s.discovery = start(t, s.mesh, "")
	s.agent = runWith(t, "", relay.Options{}, o, s.discovery.address)
	return s
}

// answersWith waits until Envoy answers with a status and a header of the plugin.
func answersWith(t *testing.T, e *envoytest.Envoy, status int, header string) {
	t.Helper()
	answersWithin(t, limit, e, status, header)
}

func answersWithin(t *testing.T, limit time.Duration, e *envoytest.Envoy, status int, header string) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log("the last answer:", last)
		}
	}()
	require.Eventually(t, func() bool {
		answer, err := client.Get("http://" + e.ListenerAddress(t, "in").String())
		if err != nil {
			last = err.Error()
			return false
		}
		defer answer.Body.Close()
		last = fmt.Sprint(answer.StatusCode, " ", answer.Header.Values("Plugin"))
		return answer.StatusCode == status && strings.TrimSpace(strings.Join(answer.Header.Values("Plugin"), "+")) == header
	}, limit, 10*time.Millisecond)
}

// changes publishes the plugins anew.
func (s *scene) changes(t *testing.T, plugins ...wasmPlugin) {
	t.Helper()
	s.world.plugins = plugins
	publish(t, s.mesh, s.world)
}

// requireNoRefusals checks that nothing was refused, unless a busy machine fetched it slowly.
func (r *replica) requireNoRefusals(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reason := range r.reasons {
		require.Contains(t, reason, "its module is being fetched")
	}
}

func forEachForm(t *testing.T, do func(t *testing.T, form bootstrap.XDS)) {
	t.Helper()
	for _, form := range forms {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			do(t, form)
		})
	}
}

// A plugin runs whose module is in a registry. Envoy sees nothing of what is for the agent.
func TestAPluginRuns(t *testing.T) {
	t.Parallel()
	forEachForm(t, func(t *testing.T, form bootstrap.XDS) {
		r := wasmtest.NewRegistry(t)
		r.PushModule(t, "header:one", wasmtest.Small("one"))
		s := newScene(t, fetching(r), r, wasmPlugin{
			name: "shop.header", url: "oci://" + r.Host + "/header:one", version: "1",
			more: `, "ISTIO_META_WASM_IMAGE_PULL_SECRET": "{\"auths\": {\"x.example\": {\"auth\": \"hunter2\"}}}"`,
		})
		e := envoytest.Start(t, s.agent.bootstrap(t, form))
		answersWith(t, e, 200, "one")
		s.discovery.requireNoRefusals(t)
		dump := e.Get(t, "/config_dump?resource=ecds_filters")
		require.Contains(t, dump, `"OWN": "kept"`)
		require.NotContains(t, dump, "hunter2")
		require.NotContains(t, dump, "ISTIO_META")
		require.NotContains(t, s.agent.log.String(), "hunter2")
		require.Len(t, s.agent.wasm.Report().Modules, 1)
	})
}

// A module as people make them runs: of the Go compiler, from a server, in an archive.
func TestAModuleOfTheGoCompilerRuns(t *testing.T) {
	t.Parallel()
	module := wasmtest.Module(t, "made with Go")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(wasmtest.Archive(t, [2]string{"header.wasm", string(module)}))
	}))
	t.Cleanup(server.Close)
	r := wasmtest.NewRegistry(t)
	s := newScene(t, fetching(r), r)
	e := envoytest.Start(t, s.agent.bootstrap(t, bootstrap.Delta))
	answers(t, e, "c0")
	s.changes(t, wasmPlugin{name: "shop.header", url: server.URL, digest: wasmtest.Digest(module), version: "1"})
	answersWithin(t, 3*time.Minute, e, 200, "made with Go") // a busy machine compiles it for long
}

// Requests without a pause see the one module or the other, and none sees neither.
func TestAModuleIsExchangedUnderLoad(t *testing.T) {
	t.Parallel()
	forEachForm(t, func(t *testing.T, form bootstrap.XDS) {
		r := wasmtest.NewRegistry(t)
		at := func(name string) wasmPlugin {
			r.PushModule(t, "header:"+name, wasmtest.Small(name))
			return wasmPlugin{name: "shop.header", url: "oci://" + r.Host + "/header:" + name, version: name}
		}
		s := newScene(t, fetching(r), r, at("m0"))
		e := envoytest.Start(t, s.agent.bootstrap(t, form))
		answersWith(t, e, 200, "m0")
		count, stop := load(t, e)
		times := 0
		for times < 10 || count() < 500 {
			times++
			name := fmt.Sprint("m", times)
			s.changes(t, at(name))
			answersWith(t, e, 200, name)
		}
		sent, wrong := stop()
		t.Logf("%d requests while the module was exchanged %d times", sent, times)
		require.Empty(t, wrong)
		s.discovery.requireNoRefusals(t)
	})
}

// load sends requests until it is stopped, and returns what went wrong: a failure, or an answer
// that no module has touched.
func load(t *testing.T, e *envoytest.Envoy) (count func() int, stop func() (int, []string)) {
	t.Helper()
	url, end := "http://"+e.ListenerAddress(t, "in").String(), make(chan struct{})
	kept := &http.Client{Timeout: 10 * time.Second}
	var mu sync.Mutex
	var workers sync.WaitGroup
	var wrong []string
	sent := 0
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				answer, err := kept.Get(url)
				if err == nil {
					answer.Body.Close()
					if answer.StatusCode != http.StatusOK || answer.Header.Get("Plugin") == "" {
						err = errors.New(answer.Status + " " + answer.Header.Get("Plugin"))
					}
				}
				mu.Lock()
				if sent++; err != nil {
					wrong = append(wrong, err.Error())
				}
				mu.Unlock()
			}
		})
	}
	count = func() int {
		mu.Lock()
		defer mu.Unlock()
		return sent
	}
	return count, func() (int, []string) {
		close(end)
		workers.Wait()
		kept.CloseIdleConnections()
		return sent, wrong
	}
}

// A registry that hangs, is away or has something else keeps nothing else waiting. What the plugin
// is for passes or is refused, as it says, and discovery is told why. When the module is there, the
// plugin runs.
func TestModulesThatCannotBeHad(t *testing.T) {
	t.Parallel()
	forEachForm(t, func(t *testing.T, form bootstrap.XDS) {
		for _, failOpen := range []bool{true, false} {
			t.Run(fmt.Sprint("open ", failOpen), func(t *testing.T) {
				t.Parallel()
				for name, c := range map[string]struct {
					digest string
					before http.HandlerFunc
					reason string
				}{
					"digest": {strings.Repeat("ab", 32), nil, "somebody replaced the module"},
					"away":   {"", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "answers with status 503"},
					"hangs":  {"", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, "there is no answer within 3s"},
					"leads on": {"", func(w http.ResponseWriter, q *http.Request) {
						http.Redirect(w, q, "http://169.254.169.254/", http.StatusFound)
					}, "the address 169.254.169.254 is not that of a single machine"},
				} {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						cannotBeHad(t, form, failOpen, c.digest, c.before, c.reason)
					})
				}
			})
		}
	})
}

func cannotBeHad(t *testing.T, form bootstrap.XDS, failOpen bool, digest string, before http.HandlerFunc, reason string) {
	t.Helper()
	r := wasmtest.NewRegistry(t)
	r.PushModule(t, "header:one", wasmtest.Small("one"))
	r.Before(before)
	good := wasmtest.NewRegistry(t)
	good.PushModule(t, "header:two", wasmtest.Small("two"))
	o := fetching(r)
	o.Insecure = append(o.Insecure, good.Host)
	bad := wasmPlugin{name: "shop.bad", url: "oci://" + r.Host + "/header:one", digest: digest, version: "1", failOpen: failOpen}
	other := wasmPlugin{name: "shop.other", url: "oci://" + good.Host + "/header:two", version: "1"}
	s := newScene(t, o, r, other, bad)
	began := time.Now()
	e := envoytest.Start(t, s.agent.bootstrap(t, form))
	t.Logf("Envoy was ready after %s", time.Since(began).Round(time.Millisecond))
	if failOpen {
		answersWith(t, e, 200, "two")
	} else {
		answersWith(t, e, 403, "two")
	}
	s.discovery.await(t, func() bool { return strings.Contains(strings.Join(s.discovery.reasons, "\n"), reason) })
	require.Contains(t, fmt.Sprint(s.agent.wasm.Report().Failing), reason)

	// Everything else goes on.
	s.world.route = "c1"
	publish(t, s.mesh, s.world)
	s.discovery.await(t, func() bool { return s.discovery.acked[rds] == "c1" })
	edited := other
	edited.version = "2"
	s.changes(t, edited, bad)
	s.world.route = "c0"
	publish(t, s.mesh, s.world)
	s.discovery.await(t, func() bool { return s.discovery.acked[rds] == "c0" })
	if failOpen {
		answersWith(t, e, 200, "two")
	} else {
		answersWith(t, e, 403, "two")
	}

	// It comes about.
	r.Before(nil)
	if digest != "" {
		bad.digest = ""
		s.changes(t, other, bad)
	}
	answersWith(t, e, 200, "one+two")
	s.discovery.await(t, func() bool { return s.discovery.acked[ecds] != "" })
	require.Empty(t, s.agent.wasm.Report().Failing)
}

// An exchange for a module that cannot be had leaves the one that runs, also in an Envoy that
// starts anew.
func TestAFailedExchangeLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	forEachForm(t, func(t *testing.T, form bootstrap.XDS) {
		r := wasmtest.NewRegistry(t)
		r.PushModule(t, "header:one", wasmtest.Small("one"))
		s := newScene(t, fetching(r), r, wasmPlugin{name: "shop.header", url: "oci://" + r.Host + "/header:one", version: "1"})
		once(t, s.agent.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
			answersWith(t, e, 200, "one")
			require.Eventually(t, func() bool { return s.agent.store.Has(ecds, "shop.header") }, limit, 5*time.Millisecond)
			s.changes(t, wasmPlugin{name: "shop.header", url: "oci://" + r.Host + "/header:none", version: "2"})
			s.discovery.await(t, func() bool {
				return strings.Contains(strings.Join(s.discovery.reasons, "\n"), "there is no such module")
			})
			answersWith(t, e, 200, "one")
		})
		again := envoytest.Start(t, s.agent.bootstrap(t, form))
		answersWith(t, again, 200, "one")
		r.PushModule(t, "header:none", wasmtest.Small("late"))
		answersWith(t, again, 200, "late")
	})
}

// A module that Envoy refuses is refused alone, in Envoy's words.
func TestAModuleThatEnvoyRefuses(t *testing.T) {
	t.Parallel()
	forEachForm(t, func(t *testing.T, form bootstrap.XDS) {
		r := wasmtest.NewRegistry(t)
		at := func(tag string, module []byte) wasmPlugin {
			r.PushModule(t, "header:"+tag, module)
			return wasmPlugin{name: "shop.header", url: "oci://" + r.Host + "/header:" + tag, version: tag}
		}
		s := newScene(t, fetching(r), r, at("one", wasmtest.Small("one")))
		e := envoytest.Start(t, s.agent.bootstrap(t, form))
		answersWith(t, e, 200, "one")
		s.changes(t, at("bad", wasmtest.Empty("exports nothing")))
		require.Eventually(t, func() bool { return strings.Contains(s.agent.Status().Refusal, "shop.header") }, limit, 5*time.Millisecond)
		refusal := strings.TrimPrefix(s.agent.Status().Refusal, ecds+": ")
		s.discovery.await(t, func() bool { return strings.Contains(strings.Join(s.discovery.reasons, "\n"), refusal) })
		s.changes(t, at("two", wasmtest.Small("two")))
		answersWith(t, e, 200, "two")
		s.discovery.await(t, func() bool { return s.discovery.acked[ecds] != "" })
	})
}

// While discovery is away and the registry too, Envoy starts with the plugin as it was.
func TestAPluginIsOfTheLastGoodConfiguration(t *testing.T) {
	t.Parallel()
	forEachForm(t, func(t *testing.T, form bootstrap.XDS) {
		r := wasmtest.NewRegistry(t)
		r.PushModule(t, "header:latest", wasmtest.Small("one"))
		s := newScene(t, fetching(r), r, wasmPlugin{name: "shop.header", url: "oci://" + r.Host + "/header", version: "1"})
		once(t, s.agent.bootstrap(t, form), func(t *testing.T, e *envoytest.Envoy) {
			answersWith(t, e, 200, "one")
			require.Eventually(t, func() bool {
				return s.agent.store.Has(ecds, "shop.header") && s.agent.store.Has(rds, "r") && s.agent.store.Has(lds, "in")
			}, limit, 5*time.Millisecond)
		})
		s.agent.stop()
		s.discovery.server.Stop()
		r.Before(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		after := runWith(t, s.agent.folder, relay.Options{}, fetching(r), s.discovery.address)
		e := envoytest.Start(t, after.bootstrap(t, form))
		answersWith(t, e, 200, "one")
		require.Equal(t, relay.LastGood, after.Status().State)

		// Discovery is back, and the registry is not: it was asked for this version of the plugin.
		asked := r.Asked("manifests")
		back := start(t, s.mesh, s.discovery.address)
		after.awaitState(t, relay.Synced)
		s.world.route = "c1"
		publish(t, s.mesh, s.world)
		answers(t, e, "c1")
		answersWith(t, e, 200, "one")
		require.Equal(t, asked, r.Asked("manifests"))
		back.requireNoRefusals(t)
	})
}

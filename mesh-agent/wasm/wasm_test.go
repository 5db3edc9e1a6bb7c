package wasm_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// machine has modules, which it may fetch from registries of the test.
type machine struct {
	*wasm.Modules

	folder  string
	options wasm.Options
	metrics *prometheus.Registry
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{folder: t.TempDir(), options: wasm.Defaults()}
	m.options.Allowed, m.options.Insecure = []string{"127.0.0.0/8"}, []string{"*"}
	m.open(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func (m *machine) open(t *testing.T) {
	t.Helper()
	m.metrics = prometheus.NewRegistry()
	var err error
	m.Modules, err = wasm.Open(m.options, wasm.Surroundings{Folder: m.folder, Metrics: m.metrics})
	require.NoError(t, err)
}

// restart is an agent that ends, and another that begins.
func (m *machine) restart(t *testing.T) {
	t.Helper()
	m.Close()
	m.open(t)
}

// wait waits until a watch has something to say, and ends it.
func (m *machine) wait(t *testing.T, p plugin.Plugin) (path, failure string) {
	t.Helper()
	if p.Timeout == 0 {
		p.Timeout = 5 * time.Second
	}
	changed := make(chan struct{}, 100)
	w := m.Watch(&p, func() { changed <- struct{}{} })
	defer w.Stop()
	for {
		if path, failure = w.State(); path != "" || failure != "" {
			return path, failure
		}
		<-changed
	}
}

// has fetches a module, or finds it.
func (m *machine) has(t *testing.T, p plugin.Plugin, module []byte) {
	t.Helper()
	path, failure := m.wait(t, p)
	require.Empty(t, failure)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, module, got)
}

// However many plugins want a module, it is fetched once.
func TestOneDownloadForAll(t *testing.T) {
	t.Parallel()
	r, m, module := wasmtest.NewRegistry(t), newMachine(t), wasmtest.Empty("one for all")
	r.PushModule(t, "a:latest", module)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			path, failure := m.wait(t, plugin.Plugin{Name: fmt.Sprint(i), URL: "oci://" + r.Host + "/a", Version: "1"})
			if path == "" || failure != "" {
				t.Error(failure)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, r.Asked("/blobs/"))
	require.Len(t, m.Report().Modules, 1)
	require.NoError(t, testutil.GatherAndCompare(m.metrics, strings.NewReader(fmt.Sprintf(`
		# HELP pgmesh_mesh_agent_wasm_modules Wasm modules that are kept.
		# TYPE pgmesh_mesh_agent_wasm_modules gauge
		pgmesh_mesh_agent_wasm_modules 1
		# HELP pgmesh_mesh_agent_wasm_fetched_bytes_total Bytes of Wasm modules that were fetched.
		# TYPE pgmesh_mesh_agent_wasm_fetched_bytes_total counter
		pgmesh_mesh_agent_wasm_fetched_bytes_total %d
	`, len(module))), "pgmesh_mesh_agent_wasm_modules", "pgmesh_mesh_agent_wasm_fetched_bytes_total"))
}

// A place is asked again as the plugin's policy says.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tag    string
		policy plugin.Policy
		again  bool
	}{
		"default":              {"v1", plugin.Default, false},
		"default of latest":    {"latest", plugin.Default, true},
		"always":               {"v1", plugin.Always, true},
		"if not present, also": {"latest", plugin.IfNotPresent, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, m, old, now := wasmtest.NewRegistry(t), newMachine(t), wasmtest.Empty("old"), wasmtest.Empty("now")
			r.PushModule(t, "a:"+c.tag, old)
			p := plugin.Plugin{Name: "p", URL: "oci://" + r.Host + "/a:" + c.tag, Version: "1", Policy: c.policy}
			m.has(t, p, old)
			r.PushModule(t, "a:"+c.tag, now)
			m.restart(t)
			m.has(t, p, old) // the plugin has not changed
			p.Version = "2"
			if c.again {
				m.has(t, p, now)
			} else {
				m.has(t, p, old)
			}
			// To ask again whether an image has changed takes no download of it.
			blobs := r.Asked("/blobs/")
			p.Version = "3"
			_, failure := m.wait(t, p)
			require.Empty(t, failure)
			require.Equal(t, blobs, r.Asked("/blobs/"))
		})
	}
}

// Whoever has no right to a module at a registry does not get it from those who have.
func TestPrivateModules(t *testing.T) {
	t.Parallel()
	r, m, module := wasmtest.NewRegistry(t), newMachine(t), wasmtest.Empty("private")
	r.PushModule(t, "a:v1", module)
	r.Before(func(w http.ResponseWriter, q *http.Request) {
		if name, password, _ := q.BasicAuth(); name != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	mine := plugin.Plugin{Name: "mine", URL: "oci://" + r.Host + "/a:v1", Credentials: fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.Host, auth)}
	m.has(t, mine, module)
	_, failure := m.wait(t, plugin.Plugin{Name: "theirs", URL: mine.URL})
	require.Contains(t, failure, "the plugin has no imagePullSecret for it")
	_, failure = m.wait(t, plugin.Plugin{Name: "theirs", URL: mine.URL, Digest: wasmtest.Digest(module)})
	require.NotEmpty(t, failure)
	_, failure = m.wait(t, plugin.Plugin{Name: "theirs", URL: mine.URL, NoCredentials: true})
	require.Contains(t, failure, "its imagePullSecret is not there")
	index, err := os.ReadFile(filepath.Join(m.folder, "index.json"))
	require.NoError(t, err)
	require.NotContains(t, string(index), auth)
}

// Those who wait hear why a module cannot be had, and when it can.
func TestAModuleComesLate(t *testing.T) {
	t.Parallel()
	r, m := wasmtest.NewRegistry(t), newMachine(t)
	changed := make(chan struct{}, 100)
	p := &plugin.Plugin{Name: "shop.p", URL: "oci://" + r.Host + "/a:v1", Timeout: 5 * time.Second}
	w := m.Watch(p, func() { changed <- struct{}{} })
	defer w.Stop()
	<-changed
	_, failure := w.State()
	require.Contains(t, failure, "there is no such module")
	report := m.Report()
	require.Len(t, report.Failing, 1)
	require.Equal(t, []string{"shop.p"}, report.Failing[0].Plugins)
	require.NoError(t, testutil.GatherAndCompare(m.metrics, strings.NewReader(`
		# HELP pgmesh_mesh_agent_wasm_failing Wasm modules that plugins wait for, and of which the last attempt failed; mesh-agent status has the reasons.
		# TYPE pgmesh_mesh_agent_wasm_failing gauge
		pgmesh_mesh_agent_wasm_failing 1
	`), "pgmesh_mesh_agent_wasm_failing"))
	late := m.Watch(p, func() {})
	_, failure = late.State()
	require.NotEmpty(t, failure, "whoever comes later need not wait to hear of it")
	late.Stop()
	r.PushModule(t, "a:v1", wasmtest.Empty("x"))
	for path, _ := w.State(); path == ""; path, _ = w.State() {
		<-changed
	}
	require.Empty(t, m.Report().Failing)
}

// One who hangs keeps nobody else waiting.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	hanging, good, m := wasmtest.NewRegistry(t), wasmtest.NewRegistry(t), newMachine(t)
	hanging.Before(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	for i := range 50 {
		w := m.Watch(&plugin.Plugin{Name: fmt.Sprint(i), URL: fmt.Sprintf("oci://%s/a%d:v1", hanging.Host, i), Timeout: time.Minute}, func() {})
		defer w.Stop()
	}
	module := wasmtest.Empty("x")
	good.PushModule(t, "a:v1", module)
	m.has(t, plugin.Plugin{Name: "good", URL: "oci://" + good.Host + "/a:v1"}, module)
	_, failure := m.wait(t, plugin.Plugin{Name: "bad", URL: "http://" + hanging.Host + "1/a", Timeout: 50 * time.Millisecond})
	require.NotEmpty(t, failure)
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(*wasm.Options){
		"--wasm-allow-addresses":      func(o *wasm.Options) { o.Allowed = []string{"everywhere"} },
		"--wasm-refuse-addresses":     func(o *wasm.Options) { o.Refused = []string{"10.0.0.0/99"} },
		"--wasm-ca":                   func(o *wasm.Options) { o.Authority = "/nowhere.pem" },
		"--wasm-max-modules":          func(o *wasm.Options) { o.MaxModules = 0 },
		"have to be more than 0":      func(o *wasm.Options) { o.MaxBytes = -1 },
		"--wasm-max-module-bytes, --": func(o *wasm.Options) { o.MaxModule = 0 },
	} {
		var o wasm.Options
		o.Flags(pflag.NewFlagSet("", pflag.PanicOnError))
		require.Equal(t, wasm.Defaults(), o)
		set(&o)
		_, err := wasm.Open(o, wasm.Surroundings{Folder: t.TempDir()})
		require.ErrorContains(t, err, want)
	}
}

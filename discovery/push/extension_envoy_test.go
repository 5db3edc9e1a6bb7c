package push_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/kinds"
)

// extended is a real Envoy before an application, without an agent.
type extended struct {
	t         *testing.T
	http, tcp uint32
	node      *corev3.Node
	envoy     *envoytest.Envoy
}

func newExtended(t *testing.T, b *bench) *extended {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello", strings.Join(r.Header.Values("X-Asked"), ""))
	}))
	t.Cleanup(app.Close)
	x := &extended{t: t, http: envoytest.Port(t), tcp: envoytest.Port(t)}
	b.apply(t, fmt.Sprintf(twoPorts, x.http, x.tcp, app.Listener.Addr().String()))
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "shop", "INTERCEPTION_MODE": "NONE", "LABELS": map[string]any{"app": "web"}})
	require.NoError(t, err)
	x.node = &corev3.Node{Id: "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local", Cluster: "web", Metadata: metadata}
	x.envoy = envoytest.Start(t, following(t, b.listen(t).Target(), x.node))
	return x
}

// asks is how a port answers a request: with a status, what a script said, and a body; or why not.
func (x *extended) asks(port uint32) string {
	x.t.Helper()
	ctx := context.WithoutCancel(x.t.Context())
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), http.NoBody)
	require.NoError(x.t, err)
	answer, err := client.Do(r)
	if err != nil {
		return "error"
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(x.t, err)
	return strings.Join(strings.Fields(fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("X-Script"), " ", string(body))), " ")
}

func (x *extended) becomes(port uint32, want string) {
	x.t.Helper()
	var last string
	require.Eventually(x.t, func() bool { last = x.asks(port); return last == want }, 30*time.Second, 20*time.Millisecond, "%v", lazily(func() string { return last }))
}

func script(phase, code string) string {
	return fmt.Sprintf("apiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\nmetadata: {name: script, namespace: shop}\nspec: {phase: %s, lua: {inlineCode: %q}}\n", phase, code)
}

const saying = `function envoy_on_response(handle) handle:headers():add("x-script", "%s") end`

// Scripts run, another one takes the place of the first without a request lost, and one that cannot
// be read is refused alone: the one before it stays, and the listener takes other changes.
func TestEnvoyRunsTheScriptsOfTrafficExtensions(t *testing.T) {
	t.Parallel()
	b := newBench()
	x := newExtended(t, b)
	x.becomes(x.http, "200 hello")
	b.apply(t, script("AUTHN", fmt.Sprintf(saying, "one")))
	for got := x.asks(x.http); got != "200 one hello"; got = x.asks(x.http) {
		require.Equal(t, "200 hello", got, "a request is lost")
	}
	b.apply(t, script("AUTHN", fmt.Sprintf(saying, "two")))
	for got := x.asks(x.http); got != "200 two hello"; got = x.asks(x.http) {
		require.Equal(t, "200 one hello", got, "a request is lost")
	}

	rejected := `extension_config_discovery.*update_rejected`
	require.Empty(t, positive(x.envoy.Stats(t, rejected)))
	b.apply(t, script("AUTHN", "function envoy_on_response(handle) this is no Lua"))
	require.Eventually(t, func() bool { return len(positive(x.envoy.Stats(t, rejected))) > 0 }, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, "200 two hello", x.asks(x.http))
	b.apply(t, strings.Replace(script("UNSPECIFIED", "function envoy_on_request(handle) handle:headers():add('x-asked', '!') end"), "name: script", "name: more", 1))
	x.becomes(x.http, "200 two hello!")

	b.apply(t, script("AUTHN", fmt.Sprintf(saying, "three")))
	x.becomes(x.http, "200 three hello!")
	b.apply(t, strings.Replace(script("AUTHZ", "function no Lua"), "name: script", "name: bad", 1))
	x.becomes(x.http, "500 three")
	b.apply(t, strings.Replace(script("STATS", "function envoy_on_request(handle) handle:headers():add('x-asked', '?') end"), "name: script", "name: more", 1))
	b.remove(kinds.Key{Kind: extensionKind(t), Namespace: "shop", Name: "bad"})
	x.becomes(x.http, "200 three hello?")

	// With a listener in the same change, which Envoy refuses for it, and takes once it is rid of it.
	more := strings.Replace(script("STATS", "function envoy_on_request(handle) handle:headers():add('x-asked', '.') end"), "name: script", "name: again", 1)
	b.apply(t, script("AUTHN", "function is no Lua either")+"---\n"+more)
	x.becomes(x.http, "200 three hello.?")
	for _, name := range []string{"script", "more", "again"} {
		b.remove(kinds.Key{Kind: extensionKind(t), Namespace: "shop", Name: name})
	}
	x.becomes(x.http, "200 hello")
}

func extensionKind(t *testing.T) *kinds.Kind {
	t.Helper()
	kind, ok := kinds.Lookup("extensions.istio.io", "TrafficExtension")
	require.True(t, ok)
	return kind
}

func positive(stats map[string]uint64) (out []string) {
	for name, n := range stats {
		if n > 0 {
			out = append(out, name)
		}
	}
	return out
}

// idleModule is a module that does nothing: it exports a memory, what says that it is for proxies,
// and what proxies allocate memory with.
var idleModule = []byte("\x00asm\x01\x00\x00\x00" + // magic, version
	"\x01\x09\x02\x60\x00\x00\x60\x01\x7f\x01\x7f" + // types: nothing to nothing, number to number
	"\x03\x03\x02\x00\x01" + "\x05\x03\x01\x00\x01" + // two functions of them, one memory of a page
	"\x07\x2d\x03\x06memory\x02\x00\x17proxy_abi_version_0_2_1\x00\x00\x06malloc\x00\x01" + // exports
	"\x0a\x0a\x02\x02\x00\x0b\x05\x00\x41\x80\x20\x0b") // bodies: none, and 4096

// An Envoy without an agent fetches no module. It fails as each plugin says, at the ports that it
// is for, and all else goes on.
func TestModulesThatAreNotAtHandFailAsTheirPluginsSay(t *testing.T) {
	t.Parallel()
	b := newBench()
	x := newExtended(t, b)
	x.becomes(x.http, "200 hello")
	plugin := func(spec string) {
		b.apply(t, "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: module, namespace: shop}\nspec: {"+spec+"}\n")
	}
	plugin("url: oci://registry.example.com/a, failStrategy: FAIL_CLOSE")
	x.becomes(x.http, "500")
	require.Equal(t, "200 hello", x.asks(x.tcp), "the plugin reads requests alone")
	plugin("url: oci://registry.example.com/a, failStrategy: FAIL_OPEN")
	x.becomes(x.http, "200 hello")
	plugin("url: oci://registry.example.com/a, failStrategy: FAIL_CLOSE, type: NETWORK, match: [{ports: [{number: " + fmt.Sprint(x.tcp) + "}]}]")
	x.becomes(x.tcp, "error")
	require.Equal(t, "200 hello", x.asks(x.http))
	plugin("url: oci://registry.example.com/a, failStrategy: FAIL_OPEN, type: NETWORK")
	x.becomes(x.tcp, "200 hello")
	plugin("url: 'file:///there/is/no.wasm', failStrategy: FAIL_CLOSE")
	x.becomes(x.http, "500")

	module := filepath.Join(t.TempDir(), "module.wasm")
	require.NoError(t, os.WriteFile(module, idleModule, 0o644))
	for _, strategy := range []string{"FAIL_CLOSE", "FAIL_OPEN", "FAIL_RELOAD"} {
		plugin(fmt.Sprintf("url: 'file://%s', failStrategy: %s, pluginName: p, pluginConfig: {a: [1, {b: c}]}, vmConfig: {env: [{name: A, value: b}, {name: PATH, valueFrom: HOST}]}", module, strategy))
		x.becomes(x.http, "200 hello")
		plugin(fmt.Sprintf("url: 'file://%s', failStrategy: %s, type: NETWORK", module, strategy))
		x.becomes(x.tcp, "200 hello")
		x.becomes(x.http, "200 hello") // Envoy resets connections for some milliseconds, until its workers have the module
	}
	require.Empty(t, positive(x.envoy.Stats(t, "listener_manager.lds.update_rejected")))

	has := b.passing(t, x.node)
	const name = mesh.ExtensionPrefix + "shop.module~istio-translated-wasmplugin~network"
	require.Equal(t, []string{"WasmPlugin shop/module"}, b.sources(has, push.ExtensionType, name))
	require.Contains(t, b.sources(has, push.ListenerType, "127.0.0.1_"+fmt.Sprint(x.http)), "WasmPlugin shop/module")
}

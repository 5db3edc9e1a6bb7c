package consul_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// watcher keeps what a registry tells, by name.
type watcher struct{ *registrytest.Watcher }

func watch(t *testing.T, address, parameters string) *watcher {
	t.Helper()
	return &watcher{registrytest.Watch(t, open(t, address, "timeout=500ms&"+parameters), func(k kinds.Key) string { return k.Name })}
}

func web() consultest.Instance {
	return consultest.Instance{ID: "web-1", Service: "web", Node: "one", Address: "10.0.0.1", Port: 8080, Status: "passing"}
}

func TestAWrongDatacenterIsTold(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	w := watch(t, c.Address, "dc=dc7")
	w.UntilAway(t, "No path to datacenter")
	w.Lock()
	defer w.Unlock()
	require.Zero(t, w.Told)
	require.ErrorContains(t, w.Reason, "is dc right?")
}

func TestAConsulThatHangsTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	c.Register(web())
	way := gate.Open(t, c.Address)
	w := watch(t, way.Address(), "hosts=short")
	w.UntilThere(t, "consul.web")
	way.Hold()
	w.UntilAway(t, "did not answer", "consul.web")
	c.Deregister("one", "web-1")
	other := web()
	other.ID, other.Service = "other-1", "other"
	c.Register(other)
	way.Release()
	w.UntilThere(t, "consul.other")
}

// A proxy before Consul answers what it likes.
func TestGarbageTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	c.Register(web())
	var answer atomic.Pointer[http.HandlerFunc]
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.Address})
	behind.Transport = &http.Transport{DisableKeepAlives: true}
	behind.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	before := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if garbage := answer.Load(); garbage != nil {
			(*garbage)(w, r)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(before.Close)
	w := watch(t, before.Listener.Addr().String(), "hosts=short")
	w.UntilThere(t, "consul.web")
	for _, garbage := range []struct {
		words   string
		headers map[string]string
		status  int
		body    string
	}{
		{"no X-Consul-Index", nil, 200, `{"consul":[]}`},
		{"cannot be read", map[string]string{"X-Consul-Index": "9000000"}, 200, `<html>`},
		{"unexpected EOF", map[string]string{"X-Consul-Index": "9000001"}, 200, `[`},
		{"lost rights", map[string]string{"X-Consul-Index": "9000002"}, 200, `{}`},
		{"502 Bad Gateway", nil, 502, "the proxy is alone"},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for key, value := range garbage.headers {
				w.Header().Set(key, value)
			}
			w.WriteHeader(garbage.status)
			_, _ = w.Write([]byte(garbage.body))
		})
		answer.Store(&handler)
		before.CloseClientConnections()
		w.UntilAway(t, garbage.words, "consul.web")
		answer.Store(nil)
		w.UntilThere(t, "consul.web")
	}
}

// acl is a Consul that lets nobody do anything without a token.
func acl(t *testing.T) *consultest.Consul {
	t.Helper()
	const management = "8d0f5c1e-0000-4000-8000-000000000001"
	return consultest.StartAs(t, management, consultest.Config{"acl": consultest.Config{
		"enabled": true, "default_policy": "deny",
		"tokens": consultest.Config{"initial_management": management, "agent": management},
	}})
}

const mayRead = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`

// policy is the id of a policy.
func policy(t *testing.T, c *consultest.Consul, name string) string {
	t.Helper()
	var found struct{ ID string }
	require.NoError(t, json.Unmarshal(c.Get("/v1/acl/policy/name/"+name), &found))
	return found.ID
}

func accessor(token string) string { return "a" + token[1:] }

// token makes a token of a policy, and writes it to a file.
func token(t *testing.T, c *consultest.Consul, id, name, rules, file string) {
	t.Helper()
	c.Put("/v1/acl/policy", consultest.Config{"Name": name, "Rules": rules})
	c.Put("/v1/acl/token", consultest.Config{"SecretID": id, "AccessorID": accessor(id), "Policies": []consultest.Config{{"Name": name}}})
	require.NoError(t, os.WriteFile(file, []byte(id+"\n"), 0o600))
}

func TestTokens(t *testing.T) {
	t.Parallel()
	c := acl(t)
	c.Register(web())
	file := filepath.Join(t.TempDir(), "token")
	const first, second, third = "8d0f5c1e-0000-4000-8000-00000000000a", "8d0f5c1e-0000-4000-8000-00000000000b", "8d0f5c1e-0000-4000-8000-00000000000c"

	watch(t, c.Address, "").UntilAway(t, "not even its own: give a token")
	require.NoError(t, os.WriteFile(file, []byte("8d0f5c1e-0000-4000-8000-0000000000ff"), 0o600))
	w := watch(t, c.Address, "hosts=short&token-file="+url.QueryEscape(file))
	w.UntilAway(t, "403 Forbidden")

	token(t, c, first, "reader", mayRead, file)
	w.UntilThere(t, "consul.web")

	token(t, c, second, "blind", `service_prefix "" { policy = "read" }`, file)
	c.Delete("/v1/acl/token/" + accessor(first))
	w.Until(t, "the token sees no nodes", func() bool {
		return strings.Contains(w.Wrong[w.All["consul.web"].Annotations[kinds.OriginEntryAnnotation]], "may no longer see all")
	})
	w.RequireThere(t, "consul.web")
	c.Put("/v1/acl/policy/"+policy(t, c, "blind"), consultest.Config{"Name": "blind", "Rules": mayRead})
	w.Until(t, "the token sees nodes again", func() bool { return len(w.Wrong) == 0 })

	token(t, c, third, "stranger", `key_prefix "" { policy = "read" }`, file)
	c.Delete("/v1/acl/token/" + accessor(second))
	w.UntilAway(t, "lost rights", "consul.web")
}

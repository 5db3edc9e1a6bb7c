package consul_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// watcher keeps what a registry tells.
type watcher struct {
	mu   sync.Mutex
	told bool
	all  map[string]*kinds.Resource
	bad  map[string]string
	away error
}

func watch(t *testing.T, address, parameters string) *watcher {
	t.Helper()
	w := &watcher{all: map[string]*kinds.Resource{}, bad: map[string]string{}}
	stop := registrytest.Run(open(t, address, "timeout=500ms&"+parameters), w)
	t.Cleanup(func() { require.ErrorIs(t, stop(), context.Canceled) })
	return w
}

func (w *watcher) Replace(all []*kinds.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = true
	clear(w.all)
	for _, r := range all {
		w.all[r.Name] = r
	}
}

func (w *watcher) Apply(changes []kinds.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		if w.all[c.Key.Name] = c.Resource; c.Resource == nil {
			delete(w.all, c.Key.Name)
		}
	}
}

func (w *watcher) Bad(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.bad, name); err != nil {
		w.bad[name] = err.Error()
	}
}

func (w *watcher) Away(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = err
}

// until waits for something.
func (w *watcher) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if holds() {
			return nil
		}
		return fmt.Errorf("%s: away: %v, there: %v, bad: %v", what, w.away, slices.Sorted(maps.Keys(w.all)), w.bad) //nolint:errorlint // it is shown
	})
}

// untilAway waits for a reason with certain words. What was there has to be there still.
func (w *watcher) untilAway(t *testing.T, words string, there ...string) {
	t.Helper()
	w.until(t, "away: "+words, func() bool { return w.away != nil && strings.Contains(w.away.Error(), words) })
	w.requireThere(t, there...)
}

func (w *watcher) untilBack(t *testing.T, there ...string) {
	t.Helper()
	w.until(t, "back, with "+strings.Join(there, ", "), func() bool {
		for _, name := range there {
			if w.all[name] == nil {
				return false
			}
		}
		return w.away == nil && w.told && len(w.all) == len(there)
	})
}

func (w *watcher) requireThere(t *testing.T, names ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.all, len(names))
	for _, name := range names {
		require.Contains(t, w.all, name)
	}
}

func web() consultest.Instance {
	return consultest.Instance{ID: "web-1", Service: "web", Node: "one", Address: "10.0.0.1", Port: 8080, Status: "passing"}
}

func TestAWrongDatacenterIsTold(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	w := watch(t, c.Address, "dc=dc7")
	w.untilAway(t, "No path to datacenter")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.False(t, w.told)
	require.ErrorContains(t, w.away, "is dc right?")
}

func TestAConsulThatHangsTakesNothingAway(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	c.Register(web())
	way := gate.Open(t, c.Address)
	w := watch(t, way.Address(), "hosts=short")
	w.untilBack(t, "consul.web")
	way.Hold()
	w.untilAway(t, "did not answer", "consul.web")
	c.Deregister("one", "web-1")
	other := web()
	other.ID, other.Service = "other-1", "other"
	c.Register(other)
	way.Release()
	w.untilBack(t, "consul.other")
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
	w.untilBack(t, "consul.web")
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
		w.untilAway(t, garbage.words, "consul.web")
		answer.Store(nil)
		w.untilBack(t, "consul.web")
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

	watch(t, c.Address, "").untilAway(t, "not even its own: give a token")
	require.NoError(t, os.WriteFile(file, []byte("8d0f5c1e-0000-4000-8000-0000000000ff"), 0o600))
	w := watch(t, c.Address, "hosts=short&token-file="+url.QueryEscape(file))
	w.untilAway(t, "403 Forbidden")

	token(t, c, first, "reader", mayRead, file)
	w.untilBack(t, "consul.web")

	token(t, c, second, "blind", `service_prefix "" { policy = "read" }`, file)
	c.Delete("/v1/acl/token/" + accessor(first))
	w.until(t, "the token sees no nodes", func() bool {
		return strings.Contains(w.bad[w.all["consul.web"].Annotations[kinds.OriginEntryAnnotation]], "may no longer see all")
	})
	w.requireThere(t, "consul.web")
	c.Put("/v1/acl/policy/"+policy(t, c, "blind"), consultest.Config{"Name": "blind", "Rules": mayRead})
	w.until(t, "the token sees nodes again", func() bool { return len(w.bad) == 0 })

	token(t, c, third, "stranger", `key_prefix "" { policy = "read" }`, file)
	c.Delete("/v1/acl/token/" + accessor(second))
	w.untilAway(t, "lost rights", "consul.web")
}

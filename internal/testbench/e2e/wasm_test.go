package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

// wasmMesh is a mesh of its own, for what Envoys refuse in the common one is a failure. Its agent
// may fetch modules from a registry of the test.
func wasmMesh(t *testing.T, more ...string) (*mesh, *wasmtest.Registry) {
	t.Helper()
	r := wasmtest.NewRegistry(t)
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m := meshOn(t, control, database, append(more, "--wasm-allow-addresses", "127.0.0.0/8", "--wasm-insecure-registries", r.Host, "--wasm-wait", "2s")...)
	m.commit(m.service("shop.mesh", newBackend(t, "v1", nil)))
	m.answers("shop.mesh", "v1")
	return m, r
}

func wasmPlugin(spec string, values ...any) string {
	return "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: header}\nspec: {" + fmt.Sprintf(spec, values...) + "}\n"
}

// plugged waits until requests are answered with a status, and the header of the plugin.
func (m *mesh) plugged(status int, header string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: "shop.mesh"})
		if err != nil {
			return err
		}
		if got := strings.TrimSpace(a.header.Get("plugin")); a.status != status || got != header {
			return fmt.Errorf("answered %d with %q, want %d with %q", a.status, got, status, header)
		}
		return nil
	})
}

// A plugin is exchanged under five hundred requests a second, and none is lost.
func TestAWasmPluginIsExchangedUnderLoad(t *testing.T) {
	t.Parallel()
	m, r := wasmMesh(t)
	commit := func(tag string) {
		r.PushModule(t, "header:"+tag, wasmtest.Small(tag))
		m.commit(wasmPlugin("url: 'oci://%s/header:%s', match: [{mode: CLIENT}]", r.Host, tag))
		m.plugged(http.StatusOK, tag)
	}
	commit("m0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sent atomic.Int64
	wrong := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		answers := make(chan struct{}, 64)
		for ctx.Err() == nil {
			<-tick.C
			answers <- struct{}{}
			go func() {
				defer func() { <-answers }()
				a, err := m.ask(context.WithoutCancel(ctx), request{host: "shop.mesh"})
				if err == nil && (a.status != http.StatusOK || a.header.Get("plugin") == "") {
					err = fmt.Errorf("answered %d with %q", a.status, a.header.Get("plugin"))
				}
				if sent.Add(1); err != nil {
					select {
					case wrong <- err:
					default:
					}
				}
			}()
		}
		for range cap(answers) {
			answers <- struct{}{}
		}
	}()
	began := time.Now()
	for i := range 10 {
		commit(fmt.Sprint("m", i+1))
	}
	cancel()
	<-ended
	t.Logf("%d requests in %s, in which the module was exchanged ten times", sent.Load(), time.Since(began).Round(time.Millisecond))
	select {
	case err := <-wrong:
		t.Fatal(err)
	default:
	}
}

// A plugin whose module cannot be had fails as it says, harms nothing else, and is in mesh.refusals
// until its module is there. A pull secret opens a registry.
func TestAWasmPluginWhoseModuleCannotBeHad(t *testing.T) {
	t.Parallel()
	m, r := wasmMesh(t, "--xds", "sotw")
	digest := r.PushModule(t, "header:one", wasmtest.Small("one"))
	refusal := func(want string) {
		m.t.Helper()
		eventually(t, func(ctx context.Context) error {
			var kind, name, reason string
			err := m.db.QueryRow(ctx, "SELECT source_kind, source_name, reason FROM mesh.refusals WHERE namespace = $1", m.namespace).Scan(&kind, &name, &reason)
			if err == nil && (kind != "WasmPlugin" || name != "header" || !strings.Contains(reason, want)) {
				err = fmt.Errorf("it is %s %s: %s", kind, name, reason)
			}
			return err
		})
	}
	accepted := func() {
		m.t.Helper()
		eventually(t, func(ctx context.Context) error {
			var n int
			err := m.db.QueryRow(ctx, "SELECT count(*) FROM mesh.refusals WHERE namespace = $1", m.namespace).Scan(&n)
			if err == nil && n > 0 {
				err = fmt.Errorf("%d refusals", n)
			}
			return err
		})
	}
	other := strings.Repeat("ab", 32)
	m.commit(wasmPlugin("url: 'oci://%s/header:one', sha256: %s, failStrategy: FAIL_OPEN", r.Host, other))
	refusal("somebody replaced the module")
	m.plugged(http.StatusOK, "")
	m.commit(wasmPlugin("url: 'oci://%s/header:one', sha256: %s", r.Host, other))
	m.plugged(http.StatusForbidden, "")
	m.commit(m.service("other.mesh", newBackend(t, "v2", nil))) // the plugin is for it too, and the rest goes on
	m.commit(wasmPlugin("url: 'oci://%s/header:one', sha256: %s", r.Host, digest))
	m.plugged(http.StatusOK, "one")
	accepted()
	m.answers("other.mesh", "v2")

	r.Before(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	m.commit(wasmPlugin("url: 'oci://%s/header:two'", r.Host))
	refusal("its module is being fetched")
	m.plugged(http.StatusOK, "one")
	r.PushModule(t, "header:two", wasmtest.Small("two"))
	r.Before(nil)
	m.plugged(http.StatusOK, "one")
	m.commit(wasmPlugin("url: 'http://169.254.169.254/module.wasm'"))
	refusal("the address 169.254.169.254 is not that of a single machine")
	m.plugged(http.StatusOK, "one")
	m.commit(wasmPlugin("url: 'oci://%s/header:two'", r.Host))
	m.plugged(http.StatusOK, "two")
	accepted()
}

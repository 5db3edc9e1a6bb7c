package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

// An agent dies and comes back, twice, while a plugin runs and its registry is away. Envoy goes on:
// no request is lost, and nothing is fetched again. The second time the module's file was damaged
// meanwhile, and is fetched anew once the registry is back.
func TestAPluginOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	m, r := wasmMesh(t, "--tie-envoy=false", "--state-dir", state)
	module := wasmtest.Small("one")
	r.PushModule(t, "header:one", module)
	commit := func(rest string) {
		m.commit(wasmPlugin("url: 'oci://%s/header:one', match: [{mode: CLIENT}]%s", r.Host, rest))
	}
	commit("")
	m.plugged(http.StatusOK, "one")
	fetched := r.Asked("")
	require.Positive(t, fetched)

	r.Before(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	traffic := m.startTraffic("shop.mesh", 100)
	m.agentReturns(func() {})
	commit(", priority: 7, pluginConfig: {a: b}")
	require.NoError(t, m.wait("30s"))
	m.plugged(http.StatusOK, "one")
	require.Equal(t, fetched, r.Asked(""), "the module is kept, and the registry away")

	file := filepath.Join(state, "wasm", wasmtest.Digest(module)+".wasm")
	m.agentReturns(func() { require.NoError(t, os.WriteFile(file, append([]byte("x"), module[1:]...), 0o644)) })
	commit(", priority: 8, pluginConfig: {a: c}")
	says(t, m.agent.Log, "a kept Wasm module is damaged, and is fetched again")
	m.plugged(http.StatusOK, "one")
	m.awaitProxyState("refused")
	r.Before(nil)
	eventually(t, func(context.Context) error {
		if now, err := os.ReadFile(file); err != nil || string(now) != string(module) {
			return fmt.Errorf("the file has %d bytes: %w", len(now), err)
		}
		return nil
	})
	m.awaitProxyState("synced")
	m.plugged(http.StatusOK, "one")
	_, failure := traffic.end()
	require.Empty(t, failure)
}

// agentReturns has the agent die, and come back after something.
func (m *mesh) agentReturns(meanwhile func()) {
	m.t.Helper()
	m.agent.Kill()
	meanwhile()
	require.NoError(m.t, m.agent.Start())
	eventually(m.t, func(ctx context.Context) error { return errors.Join(m.agent.Ready(ctx), attached(ctx, m.agent)) })
}

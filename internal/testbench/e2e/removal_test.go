package e2e

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

// Envoy drains the listener that has an extension, and answers requests on its connections. None of
// them is lost when the extension is taken away, nor when it comes back meanwhile.
func TestAnExtensionIsTakenAwayUnderLoad(t *testing.T) {
	t.Parallel()
	m, r := wasmMesh(t, "--concurrency", "2", "--drain-time", "2s")
	m.client.Transport.(*http.Transport).DisableKeepAlives = false
	r.PushModule(t, "header:one", wasmtest.Small("one"))
	plugin := wasmPlugin("url: 'oci://%s/header:one', match: [{mode: CLIENT}]", r.Host)
	m.commit(plugin)
	m.plugged(http.StatusOK, "one")
	traffic := m.startTraffic("shop.mesh", 300)
	traffic.await(100)
	for range 2 {
		m.transaction(func(tx pgx.Tx) { m.remove(tx, "WasmPlugin", "header") })
		m.plugged(http.StatusOK, "")
		traffic.await(300)
		m.commit(plugin)
		m.plugged(http.StatusOK, "one")
		traffic.await(300)
	}
	_, failure := traffic.end()
	require.Empty(t, failure)
}

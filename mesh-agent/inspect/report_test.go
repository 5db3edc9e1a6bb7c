package inspect_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

func TestReportOfWasmModules(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	written := func(w *status.Wasm) string {
		var out bytes.Buffer
		require.NoError(t, inspect.WriteReport(&out, &status.Report{Wasm: w}, now))
		return out.String()
	}
	require.NotContains(t, written(&status.Wasm{}), "wasm", "a machine without plugins has no line of them")
	text := written(&status.Wasm{
		Modules: []status.Module{{Digest: "abcd", From: "oci://r.example/a:v1", Bytes: 4096, Since: now.Add(-2 * time.Hour)}},
		Failing: []status.Missing{{From: "oci://r.example/b", Plugins: []string{"shop.b", "shop.c"}, Reason: "there is no answer within 30s"}},
	})
	require.Regexp(t, `(?m)^wasm +1 module, 4096 bytes, 1 missing$`, text)
	require.Regexp(t, `(?m)^oci://r.example/a:v1 +2026-11-26T22:00Z +4096 +abcd$`, text)
	require.Contains(t, text, "- wasm: the module of shop.b, shop.c is not there: there is no answer within 30s\n")
}

func TestReportOfARefusal(t *testing.T) {
	t.Parallel()
	written := func(x *status.XDS) string {
		var out bytes.Buffer
		require.NoError(t, inspect.WriteReport(&out, &status.Report{XDS: x}, time.Now()))
		return out.String()
	}
	now := written(&status.XDS{State: "synced", LastNACK: "Listener: no", Trouble: "Envoy refuses a Listener: no"})
	require.Regexp(t, `(?m)^xds +synced$`, now)
	require.Contains(t, now, "What is wrong:\n- xds: Envoy refuses a Listener: no\n")
	require.Regexp(t, `(?m)^xds +synced, refused last: Listener: no$`, written(&status.XDS{State: "synced", LastNACK: "Listener: no"}))
}

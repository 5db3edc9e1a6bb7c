package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

// A plugin that reads the bytes of connections is fetched by the agent, runs, and is exchanged. One
// whose module cannot be had lets connections pass, or closes them, as it says.
func TestAWasmPluginReadsConnections(t *testing.T) {
	t.Parallel()
	m, r := wasmMesh(t)
	port := newPort(t)
	digest := r.PushModule(t, "bytes:one", wasmtest.SmallOnConnections("one>"))
	plugin := func(name, spec string, values ...any) {
		text := wasmPlugin("type: NETWORK, match: [{mode: CLIENT, ports: [{number: "+port+"}]}], "+spec, values...)
		m.commit(strings.Replace(text, "name: header", "name: "+name, 1))
	}
	remove := func(name string) { m.transaction(func(tx pgx.Tx) { m.remove(tx, "WasmPlugin", name) }) }
	greets := func(want string) {
		m.t.Helper()
		eventually(t, func(ctx context.Context) error {
			heard, _ := converse(ctx, address(port)) // of which the module makes another answer
			if heard != want {
				return fmt.Errorf("%q is heard, want %q", heard, want)
			}
			return nil
		})
	}
	m.commit(tcpService(ledger, port, newGreeter(t, "ledger")))
	greets("ledger")
	m.answers("shop.mesh", "v1")

	plugin("first", "url: 'oci://%s/bytes:one', sha256: %s, failStrategy: FAIL_OPEN", r.Host, digest)
	greets("one>ledger")
	require.Equal(t, 1, r.Asked("/blobs/"), "the agent fetches it once")

	bad := strings.Repeat("ab", 32)
	plugin("first", "url: 'oci://%s/bytes:one', sha256: %s, failStrategy: FAIL_OPEN", r.Host, bad)
	m.awaitProxyState("refused")
	greets("one>ledger") // what runs stays
	remove("first")
	greets("ledger")

	plugin("open", "url: 'oci://%s/bytes:one', sha256: %s, failStrategy: FAIL_OPEN", r.Host, bad)
	m.awaitProxyState("refused")
	greets("ledger")
	remove("open")
	m.awaitProxyState("synced")

	plugin("closed", "url: 'oci://%s/bytes:one', sha256: %s, failStrategy: FAIL_CLOSE", r.Host, bad)
	m.awaitProxyState("refused")
	eventually(t, func(ctx context.Context) error {
		_, err := converse(ctx, address(port)) // which is closed when it says something, but not before
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		return fmt.Errorf("the conversation ends with %w", err)
	})
	plugin("closed", "url: 'oci://%s/bytes:one', sha256: %s, failStrategy: FAIL_CLOSE", r.Host, digest)
	greets("one>ledger")
	m.awaitProxyState("synced")
	require.Equal(t, 1, r.Asked("/blobs/"), "and has it still")
}

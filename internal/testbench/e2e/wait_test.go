package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// applied runs `mcp-client apply` on a resource of the mesh, and returns its exit code.
func (m *mesh) applied(yaml string, args ...string) (code int, stderr string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(bin, "mcp-client"), append([]string{"--server", m.MCP, "--insecure", "-n", m.namespace, "apply", "-f", "-"}, args...)...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(yaml), &said
	err := cmd.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode(), said.String()
	}
	require.NoError(m.t, err)
	return 0, said.String()
}

// When apply --wait is done, the next request finds the change in force. If an Envoy refuses it,
// the exit code says so, and the words which.
func TestApplyWaitsForEachEnvoy(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	one, two := meshOn(t, control, database), meshOn(t, control, database, "--xds", "sotw")
	b := newBackend(t, "v1", nil)
	one.transaction(func(tx pgx.Tx) { // each its own, or both Envoys would listen on the port of one
		one.put(tx, one.service(reviews, b))
		two.put(tx, two.service(reviews, b))
	})
	for _, m := range []*mesh{one, two} {
		m.header(reviews, "backend", "v1")
		m.awaitProxyState("synced")
	}
	for n := range 20 {
		code, said := one.applied(virtualService(reviews, fmt.Sprintf(`http: [{headers: {response: {set: {edit: "%d"}}}, route: [{destination: {host: reviews.mesh}}]}]`, n)), "--wait")
		require.Zero(t, code, said)
		require.NoError(t, one.numbered(t.Context(), reviews, "edit", n), "right after apply --wait")
		require.Contains(t, said, "2 of 2 proxies run revision ")
	}

	code, said := one.applied(envoyFilter("broken", luaThatDoesNotCompile), "--wait")
	require.Equal(t, 7, code, said)
	require.Regexp(t, `revision \d+ is committed and stays: 1 of 2 proxies run .*`+one.namespace+`/client\.`+one.namespace+` runs \d+ and refuses .*'<name>' expected near 'function'.*; it was made from EnvoyFilter `+one.namespace+`/broken, spec\.configPatches\[0\], which .* changed in revision`, said)
	code, said = one.applied(envoyFilter("broken", luaThatDoesNotCompile), "--wait=50%")
	require.Zero(t, code, said)
	code, said = one.applied(envoyFilter("broken", luaHeader), "--wait")
	require.Zero(t, code, said)
	one.header(reviews, "x-lua", "was here")
}

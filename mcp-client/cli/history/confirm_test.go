package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Equal(t, clitest.Result{Err: "no change waits to be confirmed\n"}, m.Run("confirm", "--list"))
	r := m.Pipe(clitest.VirtualService("default", "a", "b"), "apply", "-f", "-", "--confirm-within", "5m", "-m", "careful")
	require.Zero(t, r.Code, r.Err)
	require.Regexp(t, `revision 1\nit goes away at \d\d:\d\d:\d\d unless it is confirmed: mcp-client confirm 1\n$`, r.Out)
	require.Regexp(t, `(?m)^1 +waiting +<time> +\S+ +careful$`, clitest.WithoutClocks(m.OK("confirm", "--list")))
	require.Equal(t, "revision 1 confirmed\n", m.OK("confirm"))
	require.Equal(t, "revision 1 confirmed\n", m.OK("confirm", "1"))
	require.Equal(t, "confirmed", m.OK("confirm", "--list", "-o", "jsonpath={[0].state}"))
	require.Equal(t, 1, m.Run("confirm", "99").Code)
	require.Equal(t, 1, m.Run("confirm").Code, "nothing waits")
	require.Equal(t, 2, m.Run("confirm", "x").Code)
	asJSON := m.Pipe(clitest.VirtualService("default", "a", "c"), "import", "-", "--confirm-within", "5m", "-o", "jsonpath={.confirmBy}")
	require.Regexp(t, `^\d{4}-\d\d-\d\dT`, asJSON.Out)
	require.Contains(t, m.OK("delete", "vs/a", "--confirm-within", "1d"), "mcp-client confirm 3\n")
}

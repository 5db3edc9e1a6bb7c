package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// Every form of the protocol must read the same.
func TestProtocolsReadTheSame(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	want := clitest.WithoutTimes(m.OK("get", "vs,dr", "-A", "-o", "json")) // the first MCP has no revisions
	for _, protocol := range []string{"auto", "xds", "delta", "legacy"} {
		require.JSONEq(t, want, clitest.WithoutTimes(m.OK("get", "vs,dr", "-A", "-o", "json", "--protocol", protocol)), protocol)
	}
	r := clitest.Run(t.Context(), "", map[string]string{"PGMESH_PROTOCOL": "carrier-pigeon"}, "get", "vs")
	require.Equal(t, 2, r.Code)
	require.Contains(t, r.Err, "PGMESH_PROTOCOL")
	require.Equal(t, "auto\nxds\ndelta\nlegacy\n:4\n", clitest.Run(t.Context(), "", nil, "__complete", "get", "--protocol", "").Out)
}

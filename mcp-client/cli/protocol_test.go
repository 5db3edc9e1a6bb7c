package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every form of the protocol must read the same.
func TestProtocolsReadTheSame(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	want := m.ok("get", "vs,dr", "-A", "-o", "json")
	for _, protocol := range []string{"auto", "xds", "delta", "legacy"} {
		require.JSONEq(t, want, m.ok("get", "vs,dr", "-A", "-o", "json", "--protocol", protocol), protocol)
	}
	r := run(t.Context(), "", map[string]string{"PGMESH_PROTOCOL": "carrier-pigeon"}, "get", "vs")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "PGMESH_PROTOCOL")
	require.Equal(t, "auto\nxds\ndelta\nlegacy\n:4\n", run(t.Context(), "", nil, "__complete", "get", "--protocol", "").out)
}

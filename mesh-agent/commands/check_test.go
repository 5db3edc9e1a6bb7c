package commands_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

// Who only looks, or cannot even ask, leaves no folder behind.
func TestNoStateFolderIsMadeForNothing(t *testing.T) {
	t.Parallel()
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	output, err := agenttest.Run(t, nil, "check", "--unit", "", "--discovery", "127.0.0.1:1", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "this machine is no member of a mesh yet")
	require.Contains(t, output, "there is no folder "+state+" yet")
	require.NoDirExists(t, state)

	output, err = agenttest.Run(t, nil, "join", "--server", "127.0.0.1:1", "--token-file", filepath.Join(state, "none"), "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no such file")
	require.NoDirExists(t, state)
}

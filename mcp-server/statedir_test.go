package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultStateDir(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/mesh:/var/lib/other")
	require.Equal(t, "/var/lib/mesh", defaultStateDir())
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", "/state")
	t.Setenv("HOME", "/home/me")
	if os.Geteuid() == 0 {
		require.Equal(t, "/var/lib/pgmesh", defaultStateDir())
		return
	}
	require.Equal(t, "/state/pgmesh", defaultStateDir())
	t.Setenv("XDG_STATE_HOME", "")
	require.Equal(t, "/home/me/.local/state/pgmesh", defaultStateDir())
}

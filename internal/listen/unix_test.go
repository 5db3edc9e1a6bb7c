package listen

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnixSocketIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Unix(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	_, err = Unix(path)
	require.ErrorContains(t, err, "another program serves "+path)

	// A socket whose program was killed stays, and the next program replaces it.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	require.FileExists(t, path)
	l, err = Unix(path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
}

func TestUnixKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err := Unix(path)
	require.ErrorContains(t, err, path+" is there, and is no socket: move it away")
	require.FileExists(t, path)
}

func TestUnixPathHasALimit(t *testing.T) {
	t.Parallel()
	path, err := UnixPath("state-dir", "/var/lib/mesh-agent", "agent.sock")
	require.NoError(t, err)
	require.Equal(t, "/var/lib/mesh-agent/agent.sock", path)
	_, err = UnixPath("state-dir", "/"+strings.Repeat("x", 100), "agent.sock")
	require.ErrorContains(t, err, "choose a folder with a shorter one with --state-dir")
}

package statedir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
)

func TestOwnGivesRootsFilesToTheAgent(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root writes for others")
	}
	folder, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chown(folder, 12345, 12346))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "sds"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sds", "key"), nil, 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(folder, "link")))

	require.NoError(t, statedir.Own(folder))
	for _, name := range []string{"", "sds", "sds/key", "link"} {
		info, err := os.Lstat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, uint32(12345), info.Sys().(*syscall.Stat_t).Uid, name)
		require.Equal(t, uint32(12346), info.Sys().(*syscall.Stat_t).Gid, name)
	}
	info, err := os.Stat(elsewhere)
	require.NoError(t, err)
	require.Zero(t, info.Sys().(*syscall.Stat_t).Uid, "the target of a link keeps its owner")

	require.NoError(t, statedir.Own(filepath.Join(folder, "none")))
}

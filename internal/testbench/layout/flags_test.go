package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs are compiled with the same flags by make, for packages and for images: those of
// tools/program-flags.
func TestProgramsHaveTheSameFlagsEverywhere(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, "tools", "program-flags"))
	require.NoError(t, err)
	_, flags, found := strings.Cut(string(text), "PROGRAM_FLAGS=")
	require.True(t, found)
	flags = strings.TrimSpace(flags)
	require.NotEmpty(t, flags)

	tell := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--eval", `tell-flags: ; @go env GOFLAGS`, "tell-flags")
	tell.Dir = root
	said, err := tell.Output()
	require.NoError(t, err)
	require.Contains(t, strings.Fields(string(said)), flags, "make compiles with other flags")
	for _, name := range []string{"deploy/packages/build", "deploy/containers/Containerfile"} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Contains(t, string(text), `"$PROGRAM_FLAGS"`, name)
		require.NotContains(t, string(text), flags, "%s says again what it reads from tools/program-flags", name)
	}
}

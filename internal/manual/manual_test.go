package manual_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/manual"
)

// program has what is hard to write in roff.
func program() *cobra.Command {
	root := &cobra.Command{Use: "ship", Short: "Sail the seas"}
	root.PersistentFlags().StringP("log-level", "l", "info", "how much to log: `LEVEL` or nothing")
	sail := &cobra.Command{
		Use: "sail [flags] PORT...", Short: "Sail to 'ports'", Args: cobra.MinimumNArgs(1), Run: func(*cobra.Command, []string) {},
		Long:    "Sail to ports, *whatever* <they> are.\n.hidden files and C:\\paths stay.\n\nRules:\n  one    a table's lines\n  two    stay as they are\nand then goes on.",
		Example: "  ship sail --to 'new york'\n  echo \\n",
	}
	sail.Flags().Bool("fast", false, "go faster")
	sail.Flags().Int("crew", 3, "how many – or more – sail")
	sail.Flags().String("secret", "", "not for everybody")
	_ = sail.Flags().MarkHidden("secret")
	sink := &cobra.Command{Use: "sink", Short: "Nobody needs this", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root.AddCommand(sail, sink, manual.Command(func() string { return "1.2" }))
	return root
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "man1")
	root := program()
	root.SetArgs([]string{"man", folder})
	require.NoError(t, root.ExecuteContext(t.Context()))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		if !strings.Contains(e.Name(), "completion") {
			all[e.Name()] = shown(t, filepath.Join(folder, e.Name()))
		}
	}
	return all
}

// shown is a page as people read it.
func shown(t *testing.T, file string) string {
	t.Helper()
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("this machine has no groff")
	}
	cmd := exec.Command("groff", "-man", "-Tascii", "-ww", "-P-c", "-P-b", "-P-u", "-rLL=110n", file)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	text, err := cmd.Output()
	require.NoError(t, err)
	require.Empty(t, complaints.String(), file)
	return string(text)
}

func TestEveryCommandHasAPage(t *testing.T) {
	t.Parallel()
	all := pages(t)
	require.Len(t, all, 2)
	require.Contains(t, all["ship.1"], "ship - sail the seas")
	require.Contains(t, all["ship.1"], "ship-sail(1)")

	sail := all["ship-sail.1"]
	for _, line := range []string{
		"ship-sail - sail to 'ports'", "ship sail [flags] PORT...", "Sail to ports, *whatever* <they> are.", ".hidden files and C:\\paths stay.",
		"         one    a table's lines\n         two    stay as they are\n", "and then goes on.",
		"--crew int\n", "how many - or more - sail (default 3)", "-l, --log-level LEVEL", "how much to log: LEVEL or nothing (default info)",
		"ship sail --to 'new york'\n", "echo \\n", "pgmesh 1.2",
	} {
		require.Contains(t, sail, line)
	}
	require.NotContains(t, sail, "secret")
	require.NotContains(t, sail, "sink")
}

package program_test

import (
	"os"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/program"
)

func TestStateFolder(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/mesh:/var/lib/other")
	require.Equal(t, "/var/lib/mesh", program.StateFolder("pgmesh"))
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", "/state")
	t.Setenv("HOME", "/home/me")
	if os.Geteuid() == 0 {
		require.Equal(t, "/var/lib/pgmesh", program.StateFolder("pgmesh"))
		return
	}
	require.Equal(t, "/state/pgmesh", program.StateFolder("pgmesh"))
	t.Setenv("XDG_STATE_HOME", "")
	require.Equal(t, "/home/me/.local/state/pgmesh", program.StateFolder("pgmesh"))
}

func TestFlagsAreVariablesToo(t *testing.T) {
	t.Setenv("PGMESH_LONG_WAIT", "9s")
	t.Setenv("PGMESH_NAME", "")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	wait, name := flags.Duration("long-wait", 0, ""), flags.String("name", "box7", "")
	require.NoError(t, program.FromEnvironment(flags))
	require.Equal(t, "9s", wait.String())
	require.Empty(t, *name, "an empty value is one")
	require.Equal(t, []string{"PGMESH_LONG_WAIT"}, flags.Lookup("long-wait").Annotations[program.From])

	t.Setenv("PGMESH_LONG_WAIT", "soon")
	require.NoError(t, program.FromEnvironment(flags), "a flag that is set wins")
	flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Duration("long-wait", 0, "")
	require.ErrorContains(t, program.FromEnvironment(flags), `the environment variable PGMESH_LONG_WAIT: invalid argument "soon"`)
}

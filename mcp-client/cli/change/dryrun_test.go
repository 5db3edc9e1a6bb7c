package change_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
)

func TestDryRunTakesTheValuesOfKubectl(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]bool{
		"--dry-run": true, "--dry-run=client": true, "--dry-run=server": true, "--dry-run=true": true, "--dry-run=none": false, "--dry-run=false": false,
	} {
		var dry bool
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		change.DryRunFlag(flags, &dry, "change nothing")
		require.NoError(t, flags.Parse([]string{flag, "a.yaml"}), flag)
		require.Equal(t, want, dry, flag)
		require.Equal(t, []string{"a.yaml"}, flags.Args(), "what follows is no value of it")
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	change.DryRunFlag(flags, new(bool), "change nothing")
	require.EqualError(t, flags.Parse([]string{"--dry-run=sever"}), `invalid argument "sever" for "--dry-run" flag: write client, server or none, or true or false`)
}

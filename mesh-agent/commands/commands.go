// Package commands is the command line of mesh-agent: a file a command.
package commands

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
)

// Root returns the command of the program, with all others beneath it.
func Root() *cobra.Command {
	root := program.New("mesh-agent", "Make this machine a member of the mesh: join, and bootstrap, run and drain its Envoy")
	root.AddCommand(joinCommand(), runCommand(), bootstrapCommand(), settingsCommand(), checkCommand(), dnsCommand(), redirectCommand(),
		statusCommand(), logsCommand(), envoyCommand(), drainCommand(), undrainCommand(), stopCommand(), bugReportCommand())
	return root
}

// complete adds shell completion for a flag's values.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag
	}
}

// orList formats a list of alternatives.
func orList(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

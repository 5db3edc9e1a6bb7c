package arguments

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Family makes a command with subcommands. Without arguments it prints its help; an unknown
// subcommand is an error.
func Family(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q (did you mean %q?)", args[0], near[0])
		}
		return fmt.Errorf("unknown command %q", args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(members...)
	return cmd
}

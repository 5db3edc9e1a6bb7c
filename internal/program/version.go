package program

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// versionCommand prints what --version prints, for those who type it as a command.
func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  "Print the version of this program, as --version does. -o json has the commit that it was built from, too.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Root().Name(), Version())
				return err
			case "json":
				to := json.NewEncoder(cmd.OutOrStdout())
				to.SetIndent("", "  ")
				return to.Encode(version.OfBuild())
			}
			return fmt.Errorf("-o %s: choose text or json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "how to print it: text or json")
	return cmd
}

package commands

import (
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

// outputFlag declares -o, with the first format as the default. A command refuses other formats
// before it does anything.
func outputFlag(cmd *cobra.Command, into *string, formats ...string) {
	cmd.Flags().StringVarP(into, "output", "o", formats[0], "how to print it: "+orList(formats))
	complete(cmd, "output", formats...)
	next := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := inspect.CheckFormat(*into, formats); err != nil || next == nil {
			return err
		}
		return next(cmd, args)
	}
}

// The mesh-agent makes a machine a member of the mesh: it writes the bootstrap of an Envoy, runs it, and ends it gently.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "mesh-agent",
		Short:         "Make this machine a member of the mesh: bootstrap, run and drain its Envoy",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), bootstrapCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "mesh-agent:", err)
		os.Exit(1)
	}
}

// Release makes a release: packages in signed repositories, programs, images, and what proves where
// they come from, in a folder that any web server can serve.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
)

func main() {
	root := program.New("release", "Make a release in a folder that any web server can serve")
	var o options
	o.declare(root.Flags())
	root.Args = cobra.NoArgs
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := o.complete(cmd.Context(), cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return r.make(cmd.Context())
	}
	os.Exit(program.Main(root))
}

// Demo runs a whole mesh on this machine: Postgres, mcp-server, discovery, an Envoy under
// mesh-agent, and two versions of a small service. It shifts traffic from one version to the other
// once, and then leaves the mesh to the user.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
)

func main() {
	root := program.New("demo", "Run a whole mesh on this machine, until Ctrl-C")
	var o options
	o.declare(root.Flags())
	root.Args = cobra.NoArgs
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(); err != nil {
			return err
		}
		return run(cmd.Context(), &o, cmd.OutOrStdout(), program.Log(cmd))
	}
	os.Exit(program.Main(root))
}

// binFolder returns the folder of this program, which has the other programs, too.
func binFolder() string {
	path, err := os.Executable()
	if err != nil {
		return "bin"
	}
	return filepath.Dir(path)
}

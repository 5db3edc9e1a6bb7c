// Discovery turns the mesh's configuration, which it follows over MCP, into configuration for Envoy.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/internal/program"
)

func main() {
	root := program.New("discovery", "Serve Envoys from the configuration of an mcp-server")
	root.AddCommand(runCommand())
	os.Exit(program.Main(root))
}

func runCommand() *cobra.Command {
	var o serve.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve until told to stop",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = program.Log(cmd)
			o.Sources.Given(cmd.Flags())
			return serve.Run(cmd.Context(), o, nil)
		},
	}
	f := cmd.Flags()
	o.Sources.Flags(f)
	f.StringVar(&o.Listen, "listen", "127.0.0.1:15010", "address to serve xDS on")
	f.StringVar(&o.HTTP, "http", "127.0.0.1:15014", "address to serve /healthz, /readyz, /metrics, /problems and /files on")
	o.Plaintext.Flags(f)
	return cmd
}

// Discovery turns the mesh's configuration, which it follows over MCP, into configuration for
// Envoy.
package main

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/internal/program"
)

// garbagePercent is how much garbage may be there beside what is used before it is collected. Most
// of what is used stays, and what a change leaves behind is little: less than Go's 100 costs little
// time, and a fifth of the memory goes.
const garbagePercent = 38

// ballastSize is counted with what is used, and takes no memory: nobody ever touches it. By the
// percentage alone garbage would be collected after every few megabytes while the mesh is read and
// the first proxies come, which is when a discovery that has just started has the most to do.
const ballastSize = 32 << 20

func main() {
	var ballast []byte
	if program.CollectGarbage(garbagePercent) {
		ballast = make([]byte, ballastSize)
	}
	root := program.New("discovery", "Serve Envoys from the configuration of an mcp-server")
	root.AddCommand(runCommand())
	status := program.Main(root)
	runtime.KeepAlive(ballast)
	os.Exit(status)
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
	o.Identity.Flags(f)
	f.StringVar(&o.Listen, "listen", "", "address to serve xDS and machines' certificates on (default :15012, and with --insecure 127.0.0.1:15010)")
	o.HTTP.Flags(f, "127.0.0.1:15014")
	o.Plaintext.Flags(f)
	o.Limits.Flags(f)
	f.IntVar(&o.RequestMiB, "max-request-mib", serve.DefaultRequestMiB, "the largest request of a proxy that is taken, in MiB: one that comes back names what it has, with some 100 bytes for each resource")
	o.Keys.Flags(f)
	f.IntVar(&o.RoutesByHost, "routes-by-host", push.ScopedFrom,
		"by how many VirtualServices with exact hosts a port's routes are sent to a gateway host by host, if its Envoy is 1.40 or later; those of listeners of the Gateway API for more than one host always are; 0 for never")
	f.BoolVar(&o.OwnGateways, "scope-gateways-to-namespace", false,
		"have gateways serve the Gateways of their own namespace alone, also where the mesh does not: the setting own_gateways, which is on as soon as hosts have owners")
	f.BoolVar(&o.ReportProxies, "report-proxies", true,
		"report to mcp-server what each proxy runs, for mesh.proxies, mesh.rollouts and mcp-client apply --wait")
	o.Traces.Flags(f)
	return cmd
}

// Scale measures how changes spread in a mesh of many services and proxies: how long until the last
// proxy has a change, and what it costs the server. The proxies are simulated and make the requests
// of Envoys. The server is pgmesh's own, started with its Postgres, or any other ADS server, so
// that peers can be measured in the same way on the same machine.
//
//	make bench-scale FLAGS='--services 1000 --proxies 500'
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/bench/bare"
	"github.com/pgmesh/pgmesh/bench/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func root() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "scale", Short: "Measure changes of a large mesh at many proxies", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAll(cmd.Context(), &o) },
	}
	o.flags(cmd.Flags())
	cmd.AddCommand(meshCommand(), &cobra.Command{
		Use: floorCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return bare.Serve(cmd.Context(), os.Stdin, os.Stdout) },
	})
	return cmd
}

// gcPercent makes the proxies collect garbage rarely, since the server is what is measured.
const gcPercent = 400

func runAll(ctx context.Context, o *options) error {
	if err := o.check(); err != nil {
		return err
	}
	debug.SetGCPercent(gcPercent)
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	r.report(os.Stdout)
	if o.json != "" {
		err = r.write(o.json)
	}
	if o.plot != "" {
		err = errors.Join(err, os.WriteFile(o.plot, []byte(r.draw()), 0o644))
	}
	return err
}

// meshCommand prints the mesh, for servers that must have it before the measurement.
func meshCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "mesh", Short: "Print the mesh as YAML, and measure nothing", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.World.Lay(); err != nil {
				return err
			}
			_, err := cmd.OutOrStdout().Write([]byte(world.Documents(o.World.Resources())))
			return err
		},
	}
	o.worldFlags(cmd.Flags())
	return cmd
}

// Scale measures how a mesh of many services and many proxies takes changes: how long until the last proxy has one, and what that costs the
// server. The proxies are simulated and ask as Envoys do; the server is pgmesh's own, which is started with its Postgres, or any other
// that speaks ADS, so that a peer can be measured in the same way on the same machine.
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

// gcPercent has the proxies collect garbage seldom: it is the server that is measured.
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

// meshCommand prints the mesh, for a server that has to have it before it can be measured.
func meshCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "mesh", Short: "Print the mesh as YAML, and measure nothing", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.World.lay(); err != nil {
				return err
			}
			_, err := cmd.OutOrStdout().Write([]byte(documents(o.World.resources())))
			return err
		},
	}
	o.worldFlags(cmd.Flags())
	return cmd
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

const drainHelp = `Take this machine out of the mesh without ending anything: its services drain, so that others send nothing new here, and Envoy asks the
clients that are connected to go elsewhere. What still comes is served as before, under the same policies. What applications on this machine ask of the mesh goes on.
mesh-agent undrain takes it back.

The machine is drained until then. An agent that was killed or reloaded meanwhile, and an Envoy that was started meanwhile, drain too. One that was ended and
started again (systemctl restart mesh-agent) serves, and so does a machine that was started anew.

If no other machine takes requests for a service, as far as discovery knows, that is a warning before the drain, and the drain goes on: who drains a whole rack,
or has to take a machine out at once, is not to be held up. --look warns, too, and changes nothing.

--wait waits until no connection is left. Exit code 0: none is left, or it was not waited for. 1: there still were some.`

// pollInterval is how often to check for remaining connections.
const pollInterval = 200 * time.Millisecond

func drainCommand() *cobra.Command {
	var l clientFlags
	var wait time.Duration
	var statusOnly bool
	cmd := &cobra.Command{
		Use:     "drain",
		Short:   "Take this machine out of the mesh without ending anything",
		Long:    drainHelp,
		Example: "  mesh-agent drain\n  mesh-agent drain --wait 1m && systemctl stop mesh-agent.service\n  mesh-agent drain --look -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agent, err := l.agent()
			if err != nil {
				return err
			}
			warnOfAlone(cmd, agent)
			d, err := agent.Drain(cmd.Context(), statusOnly)
			if err == nil && wait > 0 {
				d, err = awaitDrained(cmd.Context(), agent, wait)
			}
			if err != nil {
				return err
			}
			err = l.printDrain(cmd, d)
			if err == nil && wait > 0 && d.Connections > 0 {
				return program.Exit(1)
			}
			return err
		},
	}
	l.declare(cmd, inspect.Formats...)
	cmd.Flags().DurationVar(&wait, "wait", 0, "for how long to wait until no connection is left")
	cmd.Flags().BoolVar(&statusOnly, "look", false, "change nothing, and tell how it stands")
	return cmd
}

const undrainHelp = `Take a drain back: Envoy keeps its clients, and the machine's services are registered as well as their probes say, so that others send requests
here again. It does nothing to a machine that is not drained, and waits until the mesh knows.

Exit code 0: the mesh knows. 1: it does not yet, as mcp-server or discovery is away, and is told as soon as that is there again; or it has failed. mesh-agent status
says so until then.`

func undrainCommand() *cobra.Command {
	var l clientFlags
	cmd := &cobra.Command{
		Use:     "undrain",
		Short:   "Take a drain back: others send requests here again",
		Long:    undrainHelp,
		Example: "  mesh-agent undrain\n  mesh-agent undrain -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agent, err := l.agent()
			if err != nil {
				return err
			}
			d, err := agent.Undrain(cmd.Context())
			if err != nil {
				return err
			}
			err = l.printDrain(cmd, d)
			if err == nil && d.NotTold != "" {
				cmd.PrintErrln("not told yet: " + terminal.Line(d.NotTold))
				return program.Exit(1)
			}
			return err
		},
	}
	l.declare(cmd, inspect.Formats...)
	return cmd
}

// warnOfAlone says which services are left with no healthy machine, before anything is drained.
func warnOfAlone(cmd *cobra.Command, agent *inspect.Agent) {
	alone, err := agent.Alone(cmd.Context())
	switch {
	case errors.Is(err, inspect.ErrOlder): // it drains all the same
	case err != nil:
		alone.Unknown = err.Error()
	}
	for _, host := range alone.Hosts {
		cmd.PrintErrf("warning: %s is left with no healthy machine: no other takes requests for it (mcp-client machines list)\n", terminal.Line(host))
	}
	if alone.Unknown != "" {
		cmd.PrintErrf("warning: whether a service is left with no healthy machine cannot be told: %s\n", terminal.Line(alone.Unknown))
	}
}

// printDrain prints how far a drain is.
func (l *clientFlags) printDrain(cmd *cobra.Command, d status.DrainStatus) error {
	return inspect.Print(cmd.OutOrStdout(), l.output, d, func(out io.Writer) error {
		state := d.State
		if !d.Since.IsZero() {
			state += " since " + d.Since.UTC().Format(time.RFC3339)
		}
		_, err := fmt.Fprintf(out, "%s, open connections: %s\n", state, connections(d))
		return err
	})
}

func connections(d status.DrainStatus) string {
	if d.Trouble != "" {
		return "unknown: " + d.Trouble
	}
	return fmt.Sprint(d.Connections)
}

// awaitDrained returns when no connection is left, or after a timeout.
func awaitDrained(ctx context.Context, agent *inspect.Agent, within time.Duration) (status.DrainStatus, error) {
	timeout := time.After(within)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		d, err := agent.Drain(ctx, true)
		if err != nil || d.Connections == 0 && d.Trouble == "" {
			return d, err
		}
		select {
		case <-tick.C:
		case <-timeout:
			return d, nil
		case <-ctx.Done():
			return d, ctx.Err()
		}
	}
}

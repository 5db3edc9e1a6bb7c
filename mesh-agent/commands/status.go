package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

const statusHelp = `Print how the agent of this machine is, and its Envoy: who the machine is, which discovery it speaks with, where Envoy's configuration is
from, which modules of Wasm plugins are kept, and how each service is registered. What is wrong comes last, with what to do about it.

Exit code 0: all is well. 1: something is wrong, or no agent runs. 3: this machine was revoked: it is no member of the mesh any more, which the first line
says, with since when and why.`

// exitRevoked is the exit code for a machine that was revoked: no waiting and no restart helps it.
const exitRevoked = 3

func statusCommand() *cobra.Command {
	var l clientFlags
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Print how the agent of this machine is, and its Envoy",
		Long:    statusHelp,
		Example: "  mesh-agent status\n  mesh-agent status -o json | jq .xds.state",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agent, err := l.agent()
			if errors.Is(err, inspect.ErrNotRunning) {
				return l.explainNotRunning(cmd.Context(), err)
			}
			if err != nil {
				return err
			}
			report, err := agent.Report(cmd.Context())
			if err != nil {
				return err
			}
			err = inspect.Print(cmd.OutOrStdout(), l.output, report, func(out io.Writer) error { return inspect.WriteReport(out, report, time.Now()) })
			switch {
			case err != nil:
				return err
			case report.Revoked != nil:
				return program.Exit(exitRevoked)
			case len(report.Troubles()) > 0:
				return program.Exit(1)
			}
			return nil
		},
	}
	l.declare(cmd, inspect.Formats...)
	return cmd
}

// explainNotRunning says whether Envoy runs still, which goes on when its agent was killed.
func (l *clientFlags) explainNotRunning(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, gone := l.envoy().Text(ctx, "/ready"); gone != nil {
		return err
	}
	return fmt.Errorf("%w. Its Envoy goes on with what it has, and the next agent takes it over", err)
}

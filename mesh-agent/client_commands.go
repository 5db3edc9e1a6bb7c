package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// clientFlags are the flags of a command that calls the running agent.
type clientFlags struct {
	state  statedir.Folder
	config configFlag
	output string
}

func (l *clientFlags) declare(cmd *cobra.Command, formats ...string) {
	l.state.Flags(cmd.Flags())
	l.config.declare(cmd)
	if len(formats) == 0 {
		return
	}
	cmd.Flags().StringVarP(&l.output, "output", "o", formats[0], "how to print it: "+orList(formats))
	complete(cmd, "output", formats...)
	read := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := inspect.CheckFormat(l.output, formats); err != nil {
			return err
		}
		return read(cmd, args)
	}
}

func (l *clientFlags) agent() (*inspect.Agent, error) { return inspect.Find(l.state.Path) }

const statusHelp = `Print how the agent of this machine is, and its Envoy: who the machine is, which discovery it speaks with, where Envoy's configuration is
from, and how each service is registered. What is wrong comes last, with what to do about it.

Exit code 0: all is well. 1: something is wrong, or no agent runs.`

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
			if err == nil && len(report.Troubles()) > 0 {
				return program.Exit(1)
			}
			return err
		},
	}
	l.declare(cmd, inspect.Formats...)
	return cmd
}

// explainNotRunning says whether Envoy still runs, which outlives a killed agent.
func (l *clientFlags) explainNotRunning(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, gone := l.envoy().Text(ctx, "/ready"); gone != nil {
		return err
	}
	return fmt.Errorf("%w. Its Envoy goes on with what it has, and the next agent takes it over", err)
}

// orList formats a list of alternatives.
func orList(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

const logsHelp = `Print the last lines that the agent and its Envoy have written, oldest first. The agent remembers a quarter of a megabyte of each; where systemd
runs it, journalctl -u mesh-agent has more.

-f goes on with those that come, until Ctrl-C.`

func logsCommand() *cobra.Command {
	var l clientFlags
	var o inspect.LogOptions
	cmd := &cobra.Command{
		Use:     "logs",
		Short:   "Print the last lines of the agent and its Envoy",
		Long:    logsHelp,
		Example: "  mesh-agent logs -n 20\n  mesh-agent logs -f --level warning\n  mesh-agent logs --from envoy --component upstream",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agent, err := l.agent()
			if err != nil {
				return err
			}
			o.JSON = l.output == "json"
			return agent.Logs(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&o.Lines, "lines", "n", 100, "how many of the last lines to print")
	flags.BoolVarP(&o.Follow, "follow", "f", false, "print those that come, too, until Ctrl-C")
	flags.StringVar(&o.From, "from", "", "whose lines alone: agent, envoy or access (Envoy's access log, if it goes to its standard output)")
	flags.StringVar(&o.Level, "level", "", "the least important level to print: "+orList(status.Levels))
	flags.StringVar(&o.Component, "component", "", "component of Envoy whose lines alone are printed, such as upstream or config")
	l.declare(cmd, "text", "json")
	complete(cmd, "from", status.FromAgent, status.FromEnvoy, status.FromAccess)
	complete(cmd, "level", status.Levels...)
	return cmd
}

// complete adds shell completion for a flag's values.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // no such flag
	}
}

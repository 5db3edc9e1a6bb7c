package commands

import (
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

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

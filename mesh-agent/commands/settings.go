package commands

import (
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/run"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

const settingsHelp = `Print the settings that mesh-agent run would have, and where each is from: the command line, a variable (PGMESH_SOME_FLAG for
--some-flag), a line of the configuration file, or the default. The former win over the latter.

The file, ` + settings.DefaultPath + ` if --config does not name another, has the names of the flags as its keys:

    discovery: discovery.example:15012
    labels: {app: cart, version: v1}
    drain-time: 10s
    services:
    - group: cart
      ports: {http: 8080}
      labels: {tier: web}
      weight: 2
      readiness:
        httpGet: {port: 8080, path: /ready}
        periodSeconds: 5
      liveness:
        tcpSocket: {port: 8080}
        action: [systemctl, restart, cart]

An agent that runs may have another file, other variables and what discovery says for its proxy: --running has what counts there.

Probes are those of a WorkloadGroup: httpGet, tcpSocket, exec or grpc, with initialDelaySeconds, timeoutSeconds, periodSeconds,
successThreshold and failureThreshold.`

// settingsCommand takes the flags of mesh-agent run and prints the resulting settings.
func settingsCommand() *cobra.Command {
	var o run.Options
	var output string
	cmd, c := newRun(&o)
	cmd.Use, cmd.Short, cmd.Long = "settings", "Print the settings that count, and where each is from", settingsHelp
	cmd.Example = "  mesh-agent settings\n  mesh-agent settings --config ./mesh-agent.yaml\n  mesh-agent settings --running\n  mesh-agent settings -o json | jq .settings"
	running := cmd.Flags().Bool("running", false, "print those of the agent that runs with --state-dir, which also has what discovery says")
	outputFlag(cmd, &output, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list := settings.List(cmd.Flags(), "output", "running")
		if *running {
			agent, err := inspect.Find(o.Machine.State.Path)
			if err == nil {
				list, err = agent.Settings(cmd.Context())
			}
			if err != nil {
				return err
			}
		}
		if output == "json" {
			return c.file.WriteJSON(cmd.OutOrStdout(), list)
		}
		return c.file.WriteTable(cmd.OutOrStdout(), list)
	}
	return cmd
}

package commands

import (
	"github.com/spf13/cobra"
)

func stopCommand() *cobra.Command {
	var l clientFlags
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "End the agent of this machine and its Envoy, as SIGTERM does",
		Long: `End the agent of this machine and its Envoy, as SIGTERM does: it leaves the mesh, drains and ends. This returns when it has ended.

Where systemd runs the agent, systemctl stop mesh-agent does the same, and knows that it was meant.`,
		Example: "  mesh-agent stop",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agent, err := l.agent()
			if err != nil {
				return err
			}
			return agent.Stop(cmd.Context())
		},
	}
	l.declare(cmd)
	return cmd
}

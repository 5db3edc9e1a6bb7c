package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/machine"
)

// bootstrapCommand prints the bootstrap for Envoy.
func bootstrapCommand() *cobra.Command {
	var m machine.Machine
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print the bootstrap that `mesh-agent run` gives to Envoy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.Identity.Credential = join.Credential{} // printing must not join
			who, err := m.Member(cmd.Context(), program.Log(cmd), nil)
			if err != nil {
				return err
			}
			data, err := m.Bootstrap(who)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(data))
			return err
		},
	}
	m.Flags(cmd.Flags())
	c := configFlag{machine: &m}
	c.declare(cmd)
	return cmd
}

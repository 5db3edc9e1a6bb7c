package commands

import (
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
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

func (l *clientFlags) envoy() *envoyadmin.Admin { return envoyadmin.OfStateDir(l.state.Path) }

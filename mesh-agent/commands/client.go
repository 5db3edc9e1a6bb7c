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
	if len(formats) > 0 {
		outputFlag(cmd, &l.output, formats...)
	}
}

func (l *clientFlags) agent() (*inspect.Agent, error) { return inspect.Find(l.state.Path) }

func (l *clientFlags) envoy() *envoyadmin.Admin { return envoyadmin.OfStateDir(l.state.Path) }

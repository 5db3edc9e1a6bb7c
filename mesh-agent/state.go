package main

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/statedir"
)

// stateFlags say where a machine keeps who it is, and all else that has to outlive its agent.
type stateFlags struct {
	folder  string
	named   bool // somebody has said so
	passing bool // it goes with the agent
}

func (f *stateFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.folder, "state-dir", "/var/lib/mesh-agent", "folder for the machine's certificate, its key and whom it trusts, and for what the next agent has to know; "+
		"nobody else needs to read it (default with --insecure: one that goes with the agent)")
}

// take has the folder for this agent alone. One without an identity has nothing to keep, and gets a folder for as long as it runs.
func (f *stateFlags) take(insecure bool) (release func(), err error) {
	if insecure && !f.named {
		f.passing = true
		if f.folder, err = os.MkdirTemp("", "mesh-agent-"); err != nil {
			return nil, err
		}
	}
	lock, err := statedir.Take(f.folder)
	if err != nil {
		return nil, err
	}
	return func() {
		_ = lock.Release()
		if f.passing {
			_ = os.RemoveAll(f.folder)
		}
	}, nil
}

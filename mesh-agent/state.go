package main

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
)

// stateFlags say where the machine keeps its identity and other state.
type stateFlags struct {
	folder    string
	explicit  bool // the flag was given
	temporary bool // the folder is removed at the end
}

func (f *stateFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.folder, "state-dir", "/var/lib/mesh-agent", "folder for the machine's certificate, its key and whom it trusts, and for what the next agent has to know; "+
		"nobody else needs to read it (default with --insecure: one that goes with the agent)")
}

// lock locks the folder for this agent. An agent without an identity has nothing to keep and gets a
// temporary folder, unless the flag names one.
func (f *stateFlags) lock(insecure bool) (release func(), err error) {
	if insecure && !f.explicit {
		f.temporary = true
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
		if f.temporary {
			_ = os.RemoveAll(f.folder)
		}
	}, nil
}

package commands

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/machine"
	"github.com/pgmesh/pgmesh/mesh-agent/run"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

// configFlag is the configuration file of a command. It sets the command's flags that were not set
// otherwise.
type configFlag struct {
	path string
	file *settings.File // set when the command runs
	// machine gets the services of the file. It may be nil.
	machine *machine.Machine
}

func (c *configFlag) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.path, settings.Flag, settings.DefaultPath,
		"file with settings by the names of the flags of mesh-agent run, and with the services of this machine; \"\" for none")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return c.read(cmd.Flags()) }
}

// read reads the file. The default one may be missing.
func (c *configFlag) read(flags *pflag.FlagSet) (err error) {
	c.file = &settings.File{}
	if c.path != "" {
		if c.file, err = settings.Read(c.path, flags.Changed(settings.Flag), runFlags(&run.Options{})); err != nil {
			return err
		}
	}
	if c.machine != nil {
		c.machine.File = c.file
	}
	return c.file.Apply(flags)
}

// runSettings are the settings that mesh-agent run would have, for another command.
type runSettings struct {
	run.Options

	config configFlag
}

func (o *runSettings) declare(cmd *cobra.Command) {
	o.MachineFlags(cmd.Flags())
	o.config.machine = &o.Machine
	o.config.declare(cmd)
}

// runFlags returns new flags of mesh-agent run, which set options.
func runFlags(o *run.Options) *pflag.FlagSet {
	flags := program.New("mesh-agent", "").PersistentFlags()
	cmd, _ := newRun(o)
	flags.AddFlagSet(cmd.Flags())
	return flags
}

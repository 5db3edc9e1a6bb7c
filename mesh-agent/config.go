package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

// configFlag is the configuration file of a command. It sets the command's flags that were not set
// otherwise.
type configFlag struct {
	path string
	file *settings.File // set when the command runs
}

func (c *configFlag) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.path, settings.Flag, settings.DefaultPath,
		"file with settings by the names of the flags of mesh-agent run, and with the services of this machine; \"\" for none")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return c.read(cmd.Flags()) }
}

// read reads the file. The default one may be missing.
func (c *configFlag) read(flags *pflag.FlagSet) (err error) {
	if c.path == "" {
		c.file = &settings.File{}
		return nil
	}
	if c.file, err = settings.Read(c.path, flags.Changed(settings.Flag), runFlags()); err != nil {
		return err
	}
	return c.file.Apply(flags)
}

// runFlags returns new flags of mesh-agent run, to try values on.
func runFlags() *pflag.FlagSet {
	flags := program.New("mesh-agent", "").PersistentFlags()
	flags.AddFlagSet(runCommand().Flags())
	return flags
}

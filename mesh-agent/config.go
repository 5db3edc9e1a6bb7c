package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

// configFlag is the configuration file of a command. It sets those of the command's flags that were not given otherwise.
type configFlag struct {
	path string
	file *settings.File // once the command runs
}

func (c *configFlag) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.path, settings.Flag, settings.DefaultPath,
		"file with settings by the names of the flags of mesh-agent run, and with the services of this machine; \"\" for none")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return c.read(cmd.Flags()) }
}

// read may not find the file where nobody has said that there is one.
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

// runFlags are those of mesh-agent run, for nobody's use.
func runFlags() *pflag.FlagSet {
	flags := program.New("mesh-agent", "").PersistentFlags()
	flags.AddFlagSet(runCommand().Flags())
	return flags
}

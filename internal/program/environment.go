package program

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"
)

// This file is where programs look at their environment. The rest of them has flags, and what
// systemd says is in package notify.

// Variable returns the name of the variable that a flag can also be given as.
func Variable(flag string) string {
	return "PGMESH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// From is the annotation of a flag that was not set on the command line. It says where the value
// came from.
const From = "from"

// FromEnvironment sets the flags that the command line did not set from their variables.
func FromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if err == nil {
			err = FromVariable(os.LookupEnv, flags, f)
		}
	})
	return err
}

// FromVariable sets a flag from its variable, unless the command line has set it.
func FromVariable(lookup func(string) (string, bool), flags *pflag.FlagSet, f *pflag.Flag) error {
	name := Variable(f.Name)
	value, set := lookup(name)
	if !set || f.Changed {
		return nil
	}
	if err := flags.Set(f.Name, value); err != nil {
		return fmt.Errorf("the environment variable %s: %w", name, err)
	}
	return flags.SetAnnotation(f.Name, From, []string{name})
}

// CollectGarbage sets how much garbage may accumulate, as a percentage of the memory that stays in
// use, before it is collected. It reports whether it did: not if the operator has set GOGC.
func CollectGarbage(percent int) bool {
	if os.Getenv("GOGC") != "" {
		return false
	}
	debug.SetGCPercent(percent)
	return true
}

// StateDirectory returns the state folder that systemd created for the service, or "".
func StateDirectory() string {
	first, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return first
}

// StateFolder returns the folder that systemd created for the service, the system's folder of that
// name for root, or one in the user's home. It returns "" if there is none.
func StateFolder(name string) string {
	if dir := StateDirectory(); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", name)
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, name)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", name)
}

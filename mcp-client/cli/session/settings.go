package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/program"
)

// A setting is a flag of all commands. Its value comes from the first of these that has one: the
// command line, the context if the command line names it, the environment variable, the current context,
// the default.

// environment lists the flags that can also be given as variables.
var environment = []string{
	"server", "token", "token-file", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-server-id", "insecure", "insecure-any-address",
	"namespace", "output", "color", "timeout", "protocol", "discovery", "context",
}

var (
	// secretSettings are never shown, and their file must be private to its owner.
	secretSettings = []string{"token"}
	// fileSettings are names of files. A context stores them as absolute paths.
	fileSettings = []string{"tls-ca", "tls-cert", "tls-key", "token-file"}
)

// serverSettings say how to speak with a server, and are for no other.
var serverSettings = []string{"server", "token", "token-file", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-server-id", "insecure", "insecure-any-address"}

// insteadOf maps a setting to another: if the other is given as a flag, the context's is ignored.
var insteadOf = map[string]string{"token": "token-file", "token-file": "token"}

// contextSettings lists the settings that a context can have.
func contextSettings(f *pflag.FlagSet) []string {
	var names []string
	for _, flag := range environment {
		if flag != "context" && f.Lookup(flag) != nil {
			names = append(names, flag)
		}
	}
	return names
}

// ApplySettings sets the flags of a command that were not given: from the environment, and from the
// context if the command needs a server.
func (s *Session) ApplySettings(cmd *cobra.Command) error {
	if withoutServer(cmd) {
		return s.begin(cmd.Flags())
	}
	return s.Complete(cmd.Flags())
}

// Complete sets flags that were not given from the environment and the context.
func (s *Session) Complete(f *pflag.FlagSet) error {
	if err := s.begin(f); err != nil {
		return err
	}
	return s.readContext(f)
}

func (s *Session) begin(f *pflag.FlagSet) error {
	if err := s.leaveEmptyNamespace(f); err != nil {
		return err
	}
	s.given = map[string]bool{}
	f.Visit(func(flag *pflag.Flag) { s.given[flag.Name] = flag.Changed }) // before the environment sets more
	if err := s.readEnvironment(f); err != nil {
		return err
	}
	s.Namespace.Chosen = f.Changed("namespace")
	s.Started = true
	return nil
}

// leaveEmptyNamespace takes -n without a name for none, as kubectl does: it is a variable of a script that is not set, and no
// resource is in a namespace without a name.
func (s *Session) leaveEmptyNamespace(f *pflag.FlagSet) error {
	flag := f.Lookup("namespace")
	if s.unnamed = flag != nil && flag.Changed && flag.Value.String() == ""; !s.unnamed {
		return nil
	}
	flag.Changed = false
	return flag.Value.Set(flag.DefValue)
}

// withoutServer reports whether a command needs no server, and so works even if the contexts are
// damaged.
func withoutServer(cmd *cobra.Command) bool {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return !cmd.HasParent() || slices.Contains([]string{"completion", "context", "explain", "kinds", "version"}, cmd.Name())
}

// readEnvironment sets flags that were not given from their variables. An empty variable is none.
func (s *Session) readEnvironment(f *pflag.FlagSet) error {
	lookup := func(name string) (string, bool) {
		value := s.Getenv(name)
		return value, value != ""
	}
	for _, flag := range environment {
		known := f.Lookup(flag)
		if known == nil {
			continue
		}
		if err := program.FromVariable(lookup, f, known); err != nil {
			return err
		}
	}
	return nil
}

// SettingsHelp says where a flag that is not given has its value from.
const SettingsHelp = `A flag that is not given is taken from the context that --context names, or else from the environment, or else from the current
context (see mcp-client context --help):`

// EnvironmentHelp is what the help of the program says of its environment.
func EnvironmentHelp() string {
	return SettingsHelp + "\n" + EnvironmentList() + "PGMESH_CONFIG names the file that has the contexts, in place of ~/.config/pgmesh/config.yaml."
}

// EnvironmentList lists the variables with their flags.
func EnvironmentList() string {
	var b strings.Builder
	for _, flag := range environment {
		fmt.Fprintf(&b, "  %-28s --%s\n", program.Variable(flag), flag)
	}
	return b.String()
}

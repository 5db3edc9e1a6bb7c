package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environment names the variable that stands for a flag that is not given.
var environment = []struct{ flag, variable string }{
	{"server", "PGMESH_SERVER"},
	{"insecure", "PGMESH_INSECURE"},
	{"insecure-any-address", "PGMESH_INSECURE_ANY_ADDRESS"},
	{"namespace", "PGMESH_NAMESPACE"},
	{"output", "PGMESH_OUTPUT"},
	{"color", "PGMESH_COLOR"},
	{"timeout", "PGMESH_TIMEOUT"},
}

func (p *Program) declareFlags(f *pflag.FlagSet) {
	f.StringVar(&p.server.address, "server", "127.0.0.1:15020", "the server's host and port")
	f.BoolVar(&p.server.insecure, "insecure", false, "speak to the server without TLS, on loopback only")
	f.BoolVar(&p.server.insecureAnyAddress, "insecure-any-address", false,
		"with --insecure: speak without TLS to other addresses too; everyone on the way can read and change what is sent")
	f.DurationVar(&p.server.timeout, "timeout", 10*time.Second, "how long to wait for the server")
	f.StringVarP(&p.namespace.name, "namespace", "n", "default", "the namespace to work in")
	f.BoolVarP(&p.namespace.all, "all-namespaces", "A", false, "read in all namespaces")
	p.output = output{format: table}
	f.VarP(&p.output, "output", "o", formatHelp)
	p.colors = colorAuto
	f.Var(&p.colors, "color", "when to use colours: "+strings.Join(colorChoices, ", ")+" (auto: on a terminal, unless NO_COLOR is set)")
}

// readEnvironment sets the flags that were not given from their variables.
func (p *Program) readEnvironment(f *pflag.FlagSet) error {
	for _, e := range environment {
		value := p.Getenv(e.variable)
		if value == "" || f.Changed(e.flag) {
			continue
		}
		if err := f.Set(e.flag, value); err != nil {
			return fmt.Errorf("the environment variable %s: %w", e.variable, err)
		}
	}
	return nil
}

func environmentHelp() string {
	var b strings.Builder
	b.WriteString("A flag that is not given is taken from the environment:")
	for _, e := range environment {
		fmt.Fprintf(&b, "\n  %-28s --%s", e.variable, e.flag)
	}
	return b.String()
}

// namespace is the part of the mesh that a command is about.
type namespace struct {
	name   string
	all    bool
	chosen bool // by a flag or the environment, and not by default
}

func (n namespace) String() string {
	if n.all {
		return "any namespace"
	}
	return "namespace " + n.name
}

func completeFlags(root *cobra.Command) {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"output": completeFormats,
		"color":  cobra.FixedCompletions(colorChoices, cobra.ShellCompDirectiveNoFileComp),
	} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flags were declared a line ago
		}
	}
}

// completeFormats leaves the cursor behind the "=" of those that need a template.
func completeFormats(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, f := range formats {
		names = append(names, string(f))
	}
	for _, f := range templated {
		names = append(names, string(f)+"=")
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

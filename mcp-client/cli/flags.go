package cli

import (
	"fmt"
	"slices"
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
	p.output = table
	f.VarP(&p.output, "output", "o", "how to print: "+strings.Join(formats, ", "))
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

// format is a way of printing.
type format string

const (
	table      format = "table"
	wide       format = "wide"
	yamlFormat format = "yaml"
	jsonFormat format = "json"
	nameFormat format = "name"
)

var formats = []string{string(table), string(wide), string(yamlFormat), string(jsonFormat), string(nameFormat)}

// Set, String and Type make a format a flag.
func (f *format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("unknown format %q, expected one of %s", text, strings.Join(formats, ", "))
	}
	*f = format(text)
	return nil
}

func (f *format) String() string { return string(*f) }

// Type names the flag's values in the help.
func (f *format) Type() string { return "format" }

func completeFlags(root *cobra.Command) {
	if err := root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was declared a line ago
	}
}

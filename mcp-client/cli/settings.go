package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/contexts"
)

// A setting is a flag of all commands. Its value comes from the first of these that has one: the command
// line, the environment variable, the context, the default.

// environment maps flags to their environment variables.
var environment = []struct{ flag, variable string }{
	{"server", "PGMESH_SERVER"},
	{"token", "PGMESH_TOKEN"},
	{"token-file", "PGMESH_TOKEN_FILE"},
	{"tls-ca", "PGMESH_TLS_CA"},
	{"tls-cert", "PGMESH_TLS_CERT"},
	{"tls-key", "PGMESH_TLS_KEY"},
	{"tls-server-name", "PGMESH_TLS_SERVER_NAME"},
	{"tls-server-id", "PGMESH_TLS_SERVER_ID"},
	{"insecure", "PGMESH_INSECURE"},
	{"insecure-any-address", "PGMESH_INSECURE_ANY_ADDRESS"},
	{"namespace", "PGMESH_NAMESPACE"},
	{"output", "PGMESH_OUTPUT"},
	{"color", "PGMESH_COLOR"},
	{"timeout", "PGMESH_TIMEOUT"},
	{"protocol", "PGMESH_PROTOCOL"},
	{"discovery", "PGMESH_DISCOVERY"},
	{"context", "PGMESH_CONTEXT"},
}

var (
	// secretSettings are never shown, and their file must be private to its owner.
	secretSettings = []string{"token"}
	// fileSettings are names of files. A context stores them as absolute paths.
	fileSettings = []string{"tls-ca", "tls-cert", "tls-key", "token-file"}
)

// insteadOf maps a setting to another: if the other is given as a flag, the context's is ignored.
var insteadOf = map[string]string{"token": "token-file", "token-file": "token"}

// contextSettings lists the settings that a context can have.
func contextSettings(f *pflag.FlagSet) []string {
	var names []string
	for _, e := range environment {
		if e.flag != "context" && f.Lookup(e.flag) != nil {
			names = append(names, e.flag)
		}
	}
	return names
}

// applySettings sets the flags that were not given from the environment and the context.
func (p *session) applySettings(cmd *cobra.Command) error {
	f := cmd.Flags()
	if err := p.readEnvironment(f); err != nil {
		return err
	}
	p.namespace.chosen = f.Changed("namespace")
	p.started = true
	if withoutServer(cmd) {
		return nil
	}
	return p.readContext(f)
}

// withoutServer reports whether a command needs no server, and so works even if the contexts are damaged.
func withoutServer(cmd *cobra.Command) bool {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return slices.Contains([]string{"completion", "context", "kinds", "version"}, cmd.Name())
}

// readEnvironment sets flags that were not given from their variables.
func (p *session) readEnvironment(f *pflag.FlagSet) error {
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

// readContext sets the remaining flags from the context. The current context belongs to its own server: if
// another server is named, it is ignored, so that none of its secrets is sent there.
func (p *session) readContext(f *pflag.FlagSet) error {
	if p.context == "" && f.Changed("server") {
		return nil
	}
	path := contexts.Path(p.Getenv)
	file, err := contexts.Load(path, secretSettings)
	if err != nil {
		return err
	}
	name := p.context
	if name == "" {
		name = file.Current
	}
	if name == "" {
		return nil
	}
	context, err := contextNamed(file, name)
	if err != nil {
		return err
	}
	return context.apply(f, path, name)
}

// settings are those of one context.
type settings contexts.Context

func contextNamed(file *contexts.File, name string) (settings, error) {
	if context, found := file.Contexts[name]; found {
		return settings(context), nil
	}
	switch near := nearest(name, file.Names()); {
	case near != "":
		return nil, fmt.Errorf("there is no context %q (did you mean %q?)", name, near)
	case len(file.Contexts) == 0:
		return nil, fmt.Errorf("there is no context %q, nor any other: make one with mcp-client context set", name)
	}
	return nil, fmt.Errorf("there is no context %q (there are %s)", name, strings.Join(file.Names(), ", "))
}

// apply does not mark the flags as changed: they were not given on the command line.
func (s settings) apply(f *pflag.FlagSet, path, name string) error {
	known := contextSettings(f)
	for key, value := range s {
		if !slices.Contains(known, key) {
			return fmt.Errorf("the context %s in %s: unknown setting %q (known are %s)", name, path, key, strings.Join(known, ", "))
		}
		if f.Changed(key) || f.Changed(insteadOf[key]) {
			continue
		}
		if err := f.Lookup(key).Value.Set(value); err != nil {
			return fmt.Errorf("the context %s in %s: %s: %w", name, path, key, err)
		}
	}
	return nil
}

// storedValue returns the value of a setting as a context stores it.
func storedValue(key, value string) (string, error) {
	if value == "" || !slices.Contains(fileSettings, key) {
		return value, nil
	}
	return filepath.Abs(value)
}

// displayValue returns the value of a setting to show to people.
func displayValue(key, value string) string {
	if slices.Contains(secretSettings, key) {
		return "(secret)"
	}
	return value
}

const settingsHelp = `A flag that is not given is taken from the environment, or else from the context (see mcp-client context --help):`

func environmentHelp() string {
	return settingsHelp + "\n" + environmentList() + "PGMESH_CONFIG names the file that has the contexts, in place of ~/.config/pgmesh/config.yaml."
}

func environmentList() string {
	var b strings.Builder
	for _, e := range environment {
		fmt.Fprintf(&b, "  %-28s --%s\n", e.variable, e.flag)
	}
	return b.String()
}

// other returns a session with another server: a context, with only that context's settings, or an address, with the
// settings of this command.
func (p *session) other(cmd *cobra.Command, word string) (*session, error) {
	path := contexts.Path(p.Getenv)
	file, err := contexts.Load(path, secretSettings)
	if err != nil {
		return nil, err
	}
	other, shown := *p, *p.printer
	other.printer = &shown
	if _, found := file.Contexts[word]; !found {
		if !strings.Contains(word, ":") {
			return nil, fmt.Errorf("%s is no file, no context, and not the HOST:PORT of a server", word)
		}
		other.server.address = word
		return &other, nil
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	other.declareFlags(flags)
	other.output, other.colors, other.namespace = p.output, p.colors, p.namespace
	err = settings(file.Contexts[word]).apply(flags, path, word)
	if cmd.Flags().Changed("timeout") {
		other.server.timeout = p.server.timeout
	}
	return &other, err
}

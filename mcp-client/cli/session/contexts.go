package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/contexts"
)

// Contexts reads the file of contexts. If change is not nil it applies the change and saves the
// file.
func (s *Session) Contexts(change func(*contexts.File) error) (*contexts.File, error) {
	path := contexts.Path(s.Getenv)
	file, err := contexts.Load(path, secretSettings)
	if err != nil || change == nil {
		return file, err
	}
	if err := change(file); err != nil {
		return nil, err
	}
	return file, file.Save(path)
}

// readContext sets the remaining flags from the context. The current context belongs to its own
// server: if another server is named, it is left aside, so that none of its secrets is sent there.
// A context that the command line names wins over the environment.
func (s *Session) readContext(f *pflag.FlagSet) error {
	path := contexts.Path(s.Getenv)
	file, err := contexts.Load(path, secretSettings)
	if s.Context == "" && f.Changed("server") && (file == nil || file.Contexts[file.Current]["server"] != s.Server.Address) {
		if file != nil {
			s.Server.Aside = file.Current
		}
		return nil // whatever is wrong with the file
	}
	if err != nil {
		return err
	}
	name := s.Context
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
	if !s.Given("context") {
		return context.apply(f, path, name, f.Changed)
	}
	if err := context.leaveOther(f, s.Given); err != nil {
		return err
	}
	return context.apply(f, path, name, s.Given)
}

// leaveOther takes back what the environment says of another server than the context's.
func (s settings) leaveOther(f *pflag.FlagSet, given func(flag string) bool) error {
	if server := f.Lookup("server"); s["server"] == "" || !server.Changed || server.Value.String() == s["server"] {
		return nil
	}
	for _, key := range serverSettings {
		if flag := f.Lookup(key); flag != nil && flag.Changed && !given(key) {
			if err := flag.Value.Set(flag.DefValue); err != nil {
				return err
			}
		}
	}
	return nil
}

// settings are those of one context.
type settings contexts.Context

// CheckContext fails if there is no context of the name.
func CheckContext(file *contexts.File, name string) error {
	_, err := contextNamed(file, name)
	return err
}

func contextNamed(file *contexts.File, name string) (settings, error) {
	if context, found := file.Contexts[name]; found {
		return settings(context), nil
	}
	switch near := arguments.Nearest(name, file.Names()); {
	case near != "":
		return nil, fmt.Errorf("there is no context %q (did you mean %q?)", name, near)
	case len(file.Contexts) == 0:
		return nil, fmt.Errorf("there is no context %q, nor any other: make one with mcp-client context set", name)
	}
	return nil, fmt.Errorf("there is no context %q (there are %s)", name, strings.Join(file.Names(), ", "))
}

// apply sets flags but those that are taken. It does not mark them as changed: they were not given on the
// command line.
func (s settings) apply(f *pflag.FlagSet, path, name string, taken func(flag string) bool) error {
	known := contextSettings(f)
	for key, value := range s {
		if !slices.Contains(known, key) {
			return fmt.Errorf("the context %s in %s: unknown setting %q (known are %s)", name, path, key, strings.Join(known, ", "))
		}
		if taken(key) || taken(insteadOf[key]) {
			continue
		}
		if err := f.Lookup(key).Value.Set(value); err != nil {
			return fmt.Errorf("the context %s in %s: %s: %w", name, path, key, err)
		}
	}
	return nil
}

// Other returns a session with another server: a context, with only that context's settings, or an
// address, with the settings of this command.
func (s *Session) Other(cmd *cobra.Command, word string) (*Session, error) {
	path := contexts.Path(s.Getenv)
	file, err := contexts.Load(path, secretSettings)
	if err != nil {
		return nil, err
	}
	other := *s
	if _, found := file.Contexts[word]; !found {
		if !strings.Contains(word, ":") {
			return nil, fmt.Errorf("%s is no file, no context, and not the HOST:PORT of a server", word)
		}
		other.Server.Address = word
		return &other, nil
	}
	flags, printer := pflag.NewFlagSet("", pflag.ContinueOnError), *s.Printer
	other.Printer = &printer // it takes what the context says of output, which is not for this command
	other.DeclareFlags(flags)
	err = settings(file.Contexts[word]).apply(flags, path, word, flags.Changed)
	other.Printer, other.Namespace = s.Printer, s.Namespace
	if cmd.Flags().Changed("timeout") {
		other.Server.Timeout = s.Server.Timeout
	}
	return &other, err
}

// StoreGiven stores the flags of the command line in a context.
func (s *Session) StoreGiven(cmd *cobra.Command, into contexts.Context, unset []string) error {
	if s.unnamed {
		return failure.Usage(cmd, errors.New("-n names no namespace: --unset namespace leaves it to its default"))
	}
	known := contextSettings(cmd.Flags())
	for _, key := range unset {
		if !slices.Contains(known, key) {
			return failure.Usage(cmd, fmt.Errorf("--unset: a context keeps no flag %q", key))
		}
		delete(into, key)
	}
	var wrong []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) || !s.given[f.Name] {
			return
		}
		value, err := storedValue(f.Name, f.Value.String())
		into[f.Name] = value
		wrong = append(wrong, err)
	})
	return errors.Join(wrong...)
}

// storedValue returns the value of a setting as a context stores it.
func storedValue(key, value string) (string, error) {
	if value == "" || !slices.Contains(fileSettings, key) {
		return value, nil
	}
	return filepath.Abs(value)
}

// DisplayValue returns the value of a setting to show to people.
func DisplayValue(key, value string) string {
	if slices.Contains(secretSettings, key) {
		return "(secret)"
	}
	return value
}

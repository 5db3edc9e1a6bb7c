// Package session holds one run of a command: its flags, completed by the environment and the
// context, and what commands of all topics do with them: ask, read, complete.
package session

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
)

// Session is one run of a command: what its flags, the environment and the context say.
type Session struct {
	*output.Printer

	In        io.Reader
	Getenv    func(string) string
	Server    connect.Server
	Namespace arguments.Namespace
	Discovery string // the address of its debug pages
	// DiscoveryToken is a file with the token for these pages, which other machines require.
	DiscoveryToken string
	Context        string // the name of the context to use, "" for the current one
	Started        bool   // the arguments have been parsed

	given   map[string]bool // the flags given on the command line
	unnamed bool            // -n was given, and names no namespace
}

// New returns the session of a run whose arguments have not been read yet.
func New(in io.Reader, p *output.Printer, getenv func(string) string) *Session {
	return &Session{Printer: p, In: in, Getenv: getenv}
}

// Begin completes the session before a command runs, once its arguments were parsed.
func (s *Session) Begin(cmd *cobra.Command) error {
	if err := s.ApplySettings(cmd); err != nil {
		return err
	}
	if s.Output.IsReport() && cmd.Annotations[output.Reports] == "" {
		return failure.Usage(cmd, fmt.Errorf("-o %s is of mcp-client analyze alone", s.Output.Format))
	}
	if s.Output.IsImport() && cmd.Annotations[output.Imports] == "" {
		return failure.Usage(cmd, fmt.Errorf("-o %s is of mcp-client get alone", s.Output.Format))
	}
	return nil
}

// GivenNamespace is the namespace of the command line itself, "" if it names none or all.
func (s *Session) GivenNamespace() string {
	if !s.Given("namespace") || s.Namespace.All {
		return ""
	}
	return s.Namespace.Name
}

// Given reports whether a flag was given on the command line itself.
func (s *Session) Given(flag string) bool { return s.given[flag] }

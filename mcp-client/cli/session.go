package cli

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// session is one run of a command: what its flags, the environment and the context say.
type session struct {
	*printer

	In        io.Reader
	Getenv    func(string) string
	server    server
	namespace namespace
	discovery string // the address of its debug pages
	// discoveryToken is a file with the token for these pages, which other machines require.
	discoveryToken string
	context        string          // the name of the context to use, "" for the current one
	given          map[string]bool // the flags given on the command line
	started        bool            // the arguments have been parsed
}

func newSession(in io.Reader, p *printer, getenv func(string) string) *session {
	return &session{printer: p, In: in, Getenv: getenv}
}

// begin completes the session before a command runs, once its arguments were parsed.
func (p *session) begin(cmd *cobra.Command) error {
	p.given = map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { p.given[f.Name] = true })
	return p.applySettings(cmd)
}

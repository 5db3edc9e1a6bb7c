package session

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// DefaultDiscovery is the address of a discovery on this machine.
const DefaultDiscovery = "http://127.0.0.1:15014"

// DeclareFlags declares the flags of all commands.
func (s *Session) DeclareFlags(f *pflag.FlagSet) {
	f.StringVar(&s.Server.Address, "server", "127.0.0.1:15020", "the server's host and port")
	s.Server.Dial.Flags(f, "")
	s.Server.Dial.Plaintext.ClientFlags(f)
	s.Server.Protocol = mcp.Auto
	f.Var(&s.Server.Protocol, "protocol", "how to read from the server: auto, xds (state of the world), delta, or legacy (Istio's first MCP)")
	f.StringVar(&s.Discovery, "discovery", DefaultDiscovery, "URL of the --http of discovery, for proxy-status and proxy-config; token create names its host to machines that join, and its port if that is written as HOST:PORT")
	f.StringVar(&s.DiscoveryToken, "discovery-token-file", "", "file with the token of discovery's --http-token-file, for a discovery on another machine")
	f.StringVar(&s.Context, "context", "", "the context to use (see mcp-client context), in place of the current one")
	f.DurationVar(&s.Server.Timeout, "timeout", 10*time.Second, "how long to wait for the server")
	f.StringVarP(&s.Namespace.Name, "namespace", "n", "default", "the namespace to work in")
	f.BoolVarP(&s.Namespace.All, "all-namespaces", "A", false, "read in all namespaces")
	s.Printer.DeclareFlags(f)
}

// CompleteFlags completes the values of these flags.
func (s *Session) CompleteFlags(root *cobra.Command) {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"namespace": s.CompleteNamespaces,
		"output":    output.CompleteFormats,
		"protocol":  completeProtocols,
		"context":   s.CompleteContexts,
		"color":     output.CompleteColors,
	} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // all of these flags exist
		}
	}
}

package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// defaultDiscovery is the address of a discovery on this machine.
const defaultDiscovery = "http://127.0.0.1:15014"

func (p *session) declareFlags(f *pflag.FlagSet) {
	f.StringVar(&p.server.address, "server", "127.0.0.1:15020", "the server's host and port")
	p.server.dial.Flags(f, "")
	p.server.dial.Plaintext.ClientFlags(f)
	p.server.protocol = mcp.Auto
	f.Var(&p.server.protocol, "protocol", "how to read from the server: auto, xds (state of the world), delta, or legacy (Istio's first MCP)")
	f.StringVar(&p.discovery, "discovery", defaultDiscovery, "URL of the --http of discovery, for proxy-status and proxy-config; token create names its host to machines that join")
	f.StringVar(&p.discoveryToken, "discovery-token-file", "", "file with the token of discovery's --http-token-file, for a discovery on another machine")
	f.StringVar(&p.context, "context", "", "the context to use (see mcp-client context), in place of the current one")
	f.DurationVar(&p.server.timeout, "timeout", 10*time.Second, "how long to wait for the server")
	f.StringVarP(&p.namespace.name, "namespace", "n", "default", "the namespace to work in")
	f.BoolVarP(&p.namespace.all, "all-namespaces", "A", false, "read in all namespaces")
	p.printer.declareFlags(f)
}

// namespace is the namespace that a command applies to.
type namespace struct {
	name   string
	all    bool
	chosen bool // set by a flag or the environment
}

func (n namespace) String() string {
	if n.all {
		return "any namespace"
	}
	return "namespace " + n.name
}

func (p *session) completeFlags(root *cobra.Command) {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"output":   completeFormats,
		"protocol": completeProtocols,
		"context":  p.completeContexts,
		"color":    cobra.FixedCompletions(colorChoices, cobra.ShellCompDirectiveNoFileComp),
	} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // all of these flags exist
		}
	}
}

func completeProtocols(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, p := range mcp.Protocols() {
		names = append(names, string(p))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFormats adds no space after formats that end in "=" and take a template.
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

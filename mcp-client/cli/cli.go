// Package cli is the command line of mcp-client: it reads, watches and changes the configuration of a mesh.
//
// Reading goes over MCP, so it works against any server that speaks MCP over xDS. Changing goes through the admin API,
// which mcp-server alone has.
package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/manual"
	"github.com/pgmesh/pgmesh/internal/terminal"
	"github.com/pgmesh/pgmesh/internal/version"
)

// Program is one run of the command line, with everything that it takes from its surroundings.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string

	server    server
	namespace namespace
	output    output
	colors    colors
	discovery string // where its pages are
	// discoveryToken is a file with what lets in to them from another machine.
	discoveryToken string
	context        string          // the name of one, "" for the current
	given          map[string]bool // the flags of the command line
	started        bool            // the arguments were understood
}

// Run runs one command and returns its exit code. Everything that there is to say was written when it returns.
func (p *Program) Run(ctx context.Context, args []string) int {
	p.Out, p.Err = terminal.NewWriter(terminal.Exact(p.Out), p.colored), terminal.NewWriter(terminal.Exact(p.Err), nil)
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !p.started {
		err = &usageError{command, err}
	}
	return p.report(ctx, err)
}

func (p *Program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "mcp-client",
		Short: "Read, watch and change the configuration of a mesh",
		Long: `Read, watch and change the configuration of a mesh.

MCP is Istio's Mesh Configuration Protocol. Reading works against every server that speaks it, in any of its forms; --protocol chooses
one. Asking about the past and changing needs pgmesh's own mcp-server.

` + exitCodesHelp + "\n\n" + environmentHelp(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			p.given = map[string]bool{}
			cmd.Flags().Visit(func(f *pflag.Flag) { p.given[f.Name] = true })
			return p.settle(cmd)
		},
	}
	p.declareFlags(root.PersistentFlags())
	p.completeFlags(root)
	p.addCommands(root)
	return root
}

// addCommands groups the commands by what they need.
func (p *Program) addCommands(root *cobra.Command) {
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
		}
		root.AddCommand(commands...)
	}
	group("Read any MCP server:", p.getCommand(), p.describeCommand(), p.watchCommand(), p.diffCommand(), p.compareCommand(),
		p.snapshotCommand(), p.statusCommand(), p.benchCommand())
	group("Ask a pgmesh server:", p.problemsCommand(), p.historyCommand(), p.blameCommand(), p.exportCommand(), p.blockersCommand())
	group("Ask discovery:", p.proxyStatusCommand(), p.proxyConfigCommand())
	group("Change a mesh:", p.applyCommand(), p.editCommand(), p.deleteCommand(), p.importCommand(), p.restoreCommand(), p.revertCommand(),
		p.confirmCommand(), p.secretCommand(), p.defaultDenyCommand())
	group("Decide who belongs to a mesh:", p.tokenCommand(), p.identityCommand(), p.machinesCommand(), p.authorityCommand(), p.trustCommand(), p.issuerCommand(),
		p.hostsCommand(), p.quotaCommand())
	const own = "This program:"
	group(own, p.validateCommand(), p.contextCommand(), p.kindsCommand(), p.versionCommand())
	root.AddCommand(p.referenceCommand(), manual.Command(version.Of))
	root.SetHelpCommandGroupID(own)
	root.SetCompletionCommandGroupID(own)
}

// family makes a command of commands, which does nothing itself: alone it prints its help, and what it does not know is a mistake.
func family(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("unknown command %q (did you mean %q?)", args[0], near[0])
		}
		return fmt.Errorf("unknown command %q", args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(members...)
	return cmd
}

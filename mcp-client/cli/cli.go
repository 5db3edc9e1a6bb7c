// Package cli is the command line of mcp-client: it reads, watches and changes the configuration of a mesh.
//
// Reading uses MCP, so it works with any server that speaks it. Changing uses the admin API of mcp-server.
package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/version"
	"github.com/pgmesh/pgmesh/internal/manual"
)

// Program is one run of the command line, with everything it needs from its environment.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// Run runs one command and returns its exit code. All output was written when it returns.
func (p *Program) Run(ctx context.Context, args []string) int {
	s := newSession(p.In, newPrinter(p.Out, p.Err, p.Getenv), p.Getenv)
	root := rootCommand(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !s.started {
		err = usage(command, err)
	}
	return report(ctx, s.Err, err)
}

func rootCommand(p *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcp-client",
		Short: "Read, watch and change the configuration of a mesh",
		Long: `Read, watch and change the configuration of a mesh.

MCP is Istio's Mesh Configuration Protocol. Reading works against every server that speaks it, in any of its forms; --protocol chooses
one. Asking about the past and changing needs pgmesh's own mcp-server.

` + exitCodesHelp + "\n\n" + environmentHelp(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.begin(cmd) },
	}
	p.declareFlags(root.PersistentFlags())
	p.completeFlags(root)
	addCommands(root, p)
	return root
}

// addCommands adds the commands, in groups by what they need.
func addCommands(root *cobra.Command, p *session) {
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

// family makes a command with subcommands. Without arguments it prints its help; an unknown subcommand is an
// error.
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

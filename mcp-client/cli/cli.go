// Package cli is the command line of mcp-client: it reads, watches and changes the configuration of
// a mesh.
//
// Reading uses MCP, so it works with any server that speaks it. Changing uses the admin API of
// mcp-server.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/version"
	"github.com/pgmesh/pgmesh/internal/manual"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/compare"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/gitops"
	"github.com/pgmesh/pgmesh/mcp-client/cli/history"
	"github.com/pgmesh/pgmesh/mcp-client/cli/identity"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/proxies"
	"github.com/pgmesh/pgmesh/mcp-client/cli/resources"
	"github.com/pgmesh/pgmesh/mcp-client/cli/rollout"
	"github.com/pgmesh/pgmesh/mcp-client/cli/secrets"
	"github.com/pgmesh/pgmesh/mcp-client/cli/server"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/snapshots"
	"github.com/pgmesh/pgmesh/mcp-client/cli/tenancy"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Program is one run of the command line, with everything it needs from its environment.
type Program struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// Run runs one command and returns its exit code. All output was written when it returns.
func (p *Program) Run(ctx context.Context, args []string) int {
	s := session.New(p.In, output.NewPrinter(p.Out, p.Err, p.Getenv), p.Getenv)
	root := rootCommand(s)
	root.SetArgs(args)
	root.SetFlagErrorFunc(arguments.FlagErrorAmong(args))
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !s.Started {
		err = failure.Usage(command, err)
	}
	return failure.Report(ctx, s.Err, err)
}

func rootCommand(p *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcp-client",
		Short: "Read, watch and change the configuration of a mesh",
		Long: `Read, watch and change the configuration of a mesh.

MCP is Istio's Mesh Configuration Protocol. Reading works against every server that speaks it, in any of its forms; --protocol chooses
one. Asking about the past and changing needs pgmesh's own mcp-server.

` + failure.ExitCodes + "\n\n" + session.EnvironmentHelp(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.Begin(cmd) },
	}
	p.DeclareFlags(root.PersistentFlags())
	p.CompleteFlags(root)
	addCommands(root, p)
	return printVersionIfAsked(program{p}, arguments.Family(root))
}

// addCommands adds the commands, in groups by what they need.
func addCommands(root *cobra.Command, p *session.Session) {
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
		}
		root.AddCommand(commands...)
	}
	group("Read any MCP server:", resources.Get(p), resources.Describe(p), resources.Services(p), resources.Namespaces(p), resources.Watch(p), compare.Diff(p), compare.Compare(p),
		snapshots.Command(p), server.Status(p), server.Bench(p))
	group("Ask a pgmesh server:", problems.Command(p, change.WouldCause), history.History(p), history.Blame(p), resources.Export(p), proxies.Status(p), rollout.Command(p), resources.Wait(p), identity.WhoAmI(p), identity.Auth(p), server.Blockers(p))
	group("Ask discovery:", proxies.Config(p), proxies.Authz(p))
	group("Change a mesh:", resources.Apply(p), gitops.Sync(p), resources.Create(p), resources.Replace(p), resources.Patch(p), resources.Label(p), resources.Annotate(p), resources.Edit(p), resources.Delete(p), resources.Import(p), history.Restore(p), history.Revert(p),
		history.Confirm(p), secrets.Command(p), tenancy.DefaultDeny(p))
	group("Decide who belongs to a mesh:", identity.Token(p), identity.Identity(p), identity.Machines(p), identity.Authority(p), identity.Trust(p), identity.Issuer(p),
		tenancy.Hosts(p), tenancy.Quota(p))
	const own = "This program:"
	group(own, resources.Validate(p), resources.Convert(p), contextCommand(p), kindsCommand(p), resources.Explain(p), resources.Schema(p), versionCommand(p))
	root.AddCommand(referenceCommand(p), manual.Command(version.Of))
	root.SetHelpCommandGroupID(own)
	root.SetCompletionCommandGroupID(own)
}

package resources

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/secrets"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Create returns the command create.
func Create(s *session.Session) *cobra.Command {
	cmd := program{s}.fileCommand("create", "Create resources, and refuse what exists", `Create resources, all of them as one revision, or none: if one of them exists, nothing is changed.`,
		"  mcp-client create -f new.yaml", program.create)
	cmd.AddCommand(secrets.Create(s))
	return cmd
}

// Replace returns the command replace.
func Replace(s *session.Session) *cobra.Command {
	return program{s}.fileCommand("replace", "Replace resources, and refuse what does not exist", `Replace resources, all of them as one revision, or none: if one of them does not exist, nothing is changed.

What has a metadata.resourceVersion is replaced only if nobody has changed the resource since.`,
		"  mcp-client replace -f reviews.yaml", program.replace)
}

// fileCommand is a command that writes what files have.
func (p program) fileCommand(verb, short, long, example string, run func(program, context.Context, []*kinds.Document, change.Options) error) *cobra.Command {
	var from files.Sources
	var w change.Options
	cmd := &cobra.Command{
		Use:     verb + " (FILE... | -f (FILE | FOLDER | URL | -))",
		Short:   short,
		Long:    long + "\n\n" + change.WaitHelp,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			documents, err := p.documents(cmd, from.Read, &from, args)
			if err != nil {
				return err
			}
			return run(p, cmd.Context(), documents, w)
		},
	}
	from.DeclareFlags(cmd, verb)
	from.DeclareKustomize(cmd)
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	return cmd
}

// documents reads the files of -f and those that are named without it.
func (p program) documents(cmd *cobra.Command, read func(io.Reader, string) ([]*kinds.Document, error), from *files.Sources, args []string) ([]*kinds.Document, error) {
	if len(args) > 0 {
		if err := arguments.NoFile(cmd, args[0]); err != nil {
			return nil, failure.Usage(cmd, err)
		}
	}
	from.Paths = append(from.Paths, args...)
	if err := from.Check(cmd.Name()); err != nil {
		return nil, failure.Usage(cmd, err)
	}
	from.Only = p.GivenNamespace()
	return read(p.In, p.Namespace.Name)
}

func (p program) create(ctx context.Context, documents []*kinds.Document, w change.Options) error {
	var expected []*adminv1.ExpectedRevision
	for _, d := range documents {
		d.ResourceVersion = "" // of what it was read from
		expected = append(expected, &adminv1.ExpectedRevision{Resource: connect.RefOf(d.Resource.Key())})
	}
	return change.Apply(ctx, p.Session, documents, w, expected...)
}

// replace expects each resource at the revision that it has now, for that is how a server is told that
// it has to exist.
func (p program) replace(ctx context.Context, documents []*kinds.Document, w change.Options) error {
	return untilNotOvertaken(func() (pinned bool, err error) {
		var expected []*adminv1.ExpectedRevision
		for _, d := range documents {
			pinned = pinned || change.VersionOf(d) != ""
			ref := connect.RefOf(d.Resource.Key())
			resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Get, &adminv1.GetRequest{Resource: ref})
			if err != nil {
				return false, err
			}
			expected = append(expected, &adminv1.ExpectedRevision{Resource: ref, Revision: resp.GetResource().GetMetadata().GetResourceVersion()})
		}
		return pinned, change.Apply(ctx, p.Session, documents, w, expected...)
	})
}

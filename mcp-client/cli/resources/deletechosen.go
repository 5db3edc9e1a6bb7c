package resources

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// deleteChosen deletes what has labels, or everything, as it was when it was looked at.
func (p program) deleteChosen(cmd *cobra.Command, args []string, c choosing, from files.Sources, w change.Options) error {
	if from.Given() {
		return failure.Usage(cmd, errChoice)
	}
	chosen, err := p.choose(cmd, args, c)
	if err != nil || len(chosen) == 0 {
		return err
	}
	var expected []*adminv1.ExpectedRevision
	for _, one := range chosen {
		expected = append(expected, &adminv1.ExpectedRevision{Resource: connect.RefOf(one.key), Revision: one.version})
	}
	return p.delete(cmd.Context(), keysOf(chosen), w, false, expected...)
}

// noNamespaceRequested is how a request writes the namespace of what has none.
const noNamespaceRequested = "-"

// listed reads resources as they are stored. Those of kinds without a namespace are in any.
func (p program) listed(ctx context.Context, query []arguments.Wanted, labels string) (all []*adminv1.Resource, err error) {
	req := &adminv1.ListRequest{LabelSelector: labels, Kinds: arguments.FullNames(arguments.KindsOf(query))}
	if !p.Namespace.All {
		req.Namespaces = []string{p.Namespace.Name, noNamespaceRequested}
	}
	for {
		page, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.List, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetResources()...)
		if page.GetNextPageToken() == "" {
			return all, nil
		}
		req.PageToken = page.GetNextPageToken()
	}
}

package resources

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// deleting says which resources of some kinds to delete.
type deleting struct {
	labels string
	all    bool
}

func (d deleting) given() bool { return d.all || d.labels != "" }

// deleteChosen deletes what has labels, or everything, as it was when it was looked at.
func (p program) deleteChosen(cmd *cobra.Command, args []string, d deleting, from files.Sources, w change.Options) error {
	query, err := arguments.Parse(args)
	named := slices.ContainsFunc(query, func(q arguments.Wanted) bool { return q.Name != "" })
	switch {
	case len(from.Paths) > 0 || named || d.all && d.labels != "":
		err = errors.New("name resources, or kinds with -l or with --all, or files with -f")
	case err == nil && args[0] == "all" && !p.Namespace.Chosen && !p.Namespace.All:
		err = errors.New("to delete what is of all kinds, say where: -n NAMESPACE, or -A")
	}
	if err != nil {
		return failure.Usage(cmd, err)
	}
	labels, err := selector.Parse(d.labels)
	if err != nil {
		return failure.Usage(cmd, err)
	}
	chosen, err := p.listed(cmd.Context(), query, d.labels)
	if err != nil {
		return err
	}
	var keys []kinds.Key
	var expected []*adminv1.ExpectedRevision
	for _, r := range chosen {
		m := r.GetMetadata()
		kind, err := kinds.ByAPIVersion(r.GetApiVersion(), r.GetKind())
		if err != nil || !labels.Matches(m.GetLabels()) {
			continue
		}
		key := kinds.Key{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()}
		keys = append(keys, key)
		expected = append(expected, &adminv1.ExpectedRevision{Resource: connect.RefOf(key), Revision: m.GetResourceVersion()})
	}
	if len(keys) == 0 {
		p.NothingFound(query)
		return nil
	}
	return p.delete(cmd.Context(), keys, w, false, expected...)
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

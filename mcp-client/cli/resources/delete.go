package resources

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Delete returns the command delete.
func Delete(s *session.Session) *cobra.Command {
	p := program{s}
	var from files.Sources
	var w change.Options
	var ignoreMissing bool
	var chosen choosing
	cmd := &cobra.Command{
		Use:   "delete (KIND NAME... | KIND/NAME... | KIND (-l LABELS | --all) | -f FILE)",
		Short: "Delete resources, all of them or none",
		Long: `Delete resources, all of them as one revision, or none.

What to delete is named, or stands in files: then only the kinds and names in them count. With -l it is what has the labels, and with
--all everything of the kinds, in the namespace of -n or with -A in all: look at it with --dry-run first. If somebody else changes one of these
meanwhile, nothing is deleted. Of registries nothing can be deleted here.`,
		Example: `  mcp-client delete vs ratings other --ignore-not-found
  mcp-client delete vs/reviews dr/reviews -m "reviews is gone"
  mcp-client delete -f reviews.yaml --ignore-not-found
  mcp-client delete vs,dr -l app=ratings --dry-run
  mcp-client delete sidecars --all -n prod`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if chosen.given() {
				return p.deleteChosen(cmd, args, chosen, from, w)
			}
			keys, err := p.toDelete(args, from)
			if err != nil {
				return err
			}
			return p.delete(cmd.Context(), keys, w, ignoreMissing)
		},
	}
	from.DeclareFlags(cmd, "delete")
	from.DeclareKustomize(cmd)
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	cmd.Flags().BoolVar(&ignoreMissing, "ignore-not-found", false, "delete what exists, and say nothing of the others")
	chosen.declareFlags(cmd)
	return cmd
}

// toDelete lists the resources named by the arguments or the files, each once.
func (p program) toDelete(args []string, from files.Sources) ([]kinds.Key, error) {
	if (len(args) == 0) != from.Given() {
		return nil, failure.Usage(nil, errors.New("name what to delete, or the files that it stands in with -f, and not both"))
	}
	if from.Given() {
		from.Only = p.GivenNamespace()
		return from.Names(p.In, p.Namespace.Name)
	}
	query, err := arguments.ParseOf(args, arguments.ResourceOrSecret)
	if err != nil {
		return nil, failure.Usage(nil, err)
	}
	var keys []kinds.Key
	for _, w := range query {
		if w.Name == "" || p.Namespace.All {
			return nil, failure.Usage(nil, errors.New("delete takes the names of resources; -l LABELS or --all deletes several, with -A in all namespaces"))
		}
		keys = append(keys, w.In(p.Namespace))
	}
	return arguments.Distinct(keys), nil
}

func (p program) delete(ctx context.Context, keys []kinds.Key, w change.Options, allowMissing bool, expected ...*adminv1.ExpectedRevision) error {
	req := &adminv1.DeleteRequest{Message: w.Message, DryRun: w.DryRun, Author: change.Author(), AllowMissing: allowMissing, ConfirmWithin: w.Confirmation(), Expected: expected}
	for _, k := range keys {
		req.Resources = append(req.Resources, connect.RefOf(k))
	}
	resp, err := session.Change(ctx, p.Session, adminv1.AdminServiceClient.Delete, req)
	if err != nil {
		return err
	}
	return w.Conclude(ctx, p.Session, resp)
}

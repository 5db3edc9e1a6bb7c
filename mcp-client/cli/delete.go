package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) deleteCommand() *cobra.Command {
	var from sources
	var w changeOptions
	var ignoreMissing bool
	cmd := &cobra.Command{
		Use:   "delete (KIND NAME... | KIND/NAME... | -f FILE)",
		Short: "Delete resources, all of them or none",
		Long: `Delete resources, all of them as one revision, or none.

What to delete is named, or stands in files: then only the kinds and names in them count.`,
		Example: `  mcp-client delete vs ratings other --ignore-not-found
  mcp-client delete vs/reviews dr/reviews -m "reviews is gone"
  mcp-client delete -f reviews.yaml --ignore-not-found`,
		ValidArgsFunction: p.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := p.toDelete(args, from)
			if err != nil {
				return err
			}
			return p.delete(cmd.Context(), keys, w, ignoreMissing)
		},
	}
	from.declareFlags(cmd, "delete")
	w.declareFlags(cmd)
	w.declareConfirm(cmd)
	cmd.Flags().BoolVar(&ignoreMissing, "ignore-not-found", false, "delete what exists, and say nothing of the others")
	return cmd
}

// toDelete lists the resources named by the arguments or the files, each once.
func (p *session) toDelete(args []string, from sources) ([]kinds.Key, error) {
	if (len(args) == 0) == (len(from.paths) == 0) {
		return nil, usage(nil, errors.New("name what to delete, or the files that it stands in with -f, and not both"))
	}
	if len(from.paths) > 0 {
		documents, err := from.readWithSecrets(p.In, p.namespace.name)
		var keys []kinds.Key
		for _, d := range documents {
			keys = append(keys, d.Resource.Key())
		}
		return distinct(keys), err
	}
	query, err := parseWantedOf(args, resourceOrSecret)
	if err != nil {
		return nil, usage(nil, err)
	}
	var keys []kinds.Key
	for _, w := range query {
		if w.name == "" || p.namespace.all {
			return nil, usage(nil, errors.New("delete takes the names of resources; there is no deleting of whole kinds or in all namespaces"))
		}
		keys = append(keys, w.in(p.namespace))
	}
	return distinct(keys), nil
}

func (p *session) delete(ctx context.Context, keys []kinds.Key, w changeOptions, allowMissing bool) error {
	req := &adminv1.DeleteRequest{Message: w.message, DryRun: w.dryRun, Author: author(), AllowMissing: allowMissing, ConfirmWithin: w.confirmation()}
	for _, k := range keys {
		req.Resources = append(req.Resources, refOf(k))
	}
	resp, err := makeChange(ctx, p, adminv1.AdminServiceClient.Delete, req)
	if err != nil {
		return err
	}
	return printOutcomes(p.printer, resp, w.dryRun)
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) applyCommand() *cobra.Command {
	var from sources
	var w changeOptions
	cmd := &cobra.Command{
		Use:   "apply -f (FILE | FOLDER | -)",
		Short: "Create or replace resources, all of them or none",
		Long: `Create or replace resources, all of them as one revision, or none.

All files are read and checked first; nothing is sent if there is a mistake in any of them. A resource that names no namespace
goes to that of --namespace.`,
		Example: `  mcp-client apply -f reviews.yaml -m "shift 20 % to v2"
  mcp-client apply -R -f mesh/ --dry-run
  mcp-client get vs reviews -o yaml | sed 's/host: v2/host: v1/' | mcp-client apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(from.paths) == 0 {
				return usage(cmd, errors.New("name what to apply with -f"))
			}
			return p.apply(cmd.Context(), from, w)
		},
	}
	from.declareFlags(cmd, "apply")
	w.declareFlags(cmd)
	w.declareConfirm(cmd)
	return cmd
}

func (p *session) apply(ctx context.Context, from sources, w changeOptions) error {
	documents, err := from.readWithSecrets(p.In, p.namespace.name)
	if err != nil {
		return err
	}
	return applyDocuments(ctx, p, documents, w)
}

// applyDocuments applies documents as one revision. It fails if a resource in expected has another revision
// by now.
func applyDocuments(ctx context.Context, p *session, documents []*kinds.Document, w changeOptions, expected ...*adminv1.ExpectedRevision) error {
	req := &adminv1.ApplyRequest{Message: w.message, DryRun: w.dryRun, Author: author(), Expected: expected, ConfirmWithin: w.confirmation()}
	for _, d := range documents {
		sent, err := sentDocument(d)
		if err != nil {
			return err
		}
		req.Documents = append(req.Documents, sent)
	}
	resp, err := makeChange(ctx, p, adminv1.AdminServiceClient.Apply, req)
	if err != nil {
		return err
	}
	return printOutcomes(p.printer, resp, w.dryRun)
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// sentDocument encodes the parsed document on one line. So the server sees the default namespace, and reports
// problems at the document's first line.
func sentDocument(d *kinds.Document) (*adminv1.Document, error) {
	r := d.Resource
	if r.Kind == kinds.Secret {
		return sentSecret(d, metadata{r.Name, r.Namespace, r.Labels, nil})
	}
	content, err := json.Marshal(struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   metadata        `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
	}{r.Kind.APIVersion(), r.Kind.Name, metadata{r.Name, r.Namespace, r.Labels, r.Annotations}, d.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.Key(), err)
	}

	return &adminv1.Document{Content: content, File: d.File, Index: int32(d.Index), Line: int32(d.Line)}, nil
}

// sentSecret is sentDocument for a secret, which has a type and data in place of a spec.
func sentSecret(d *kinds.Document, m metadata) (*adminv1.Document, error) {
	var spec map[string]any
	if err := json.Unmarshal(d.Spec, &spec); err != nil {
		return nil, fmt.Errorf("encode %s", d.Resource.Key())
	}
	spec["apiVersion"], spec["kind"], spec["metadata"] = "v1", kinds.Secret.Name, m
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode %s", d.Resource.Key())
	}
	return &adminv1.Document{Content: content, File: d.File, Index: int32(d.Index), Line: int32(d.Line)}, nil
}

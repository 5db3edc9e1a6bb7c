package change

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Apply applies documents as one revision, prints what came of it, and waits for proxies if that is
// wanted. It fails if a resource in expected has another revision by now, or one whose document says
// which it is of.
func Apply(ctx context.Context, s *session.Session, documents []*kinds.Document, o Options, expected ...*adminv1.ExpectedRevision) error {
	req := &adminv1.ApplyRequest{Message: o.Message, DryRun: o.DryRun, Author: Author(), Expected: expected, ConfirmWithin: o.Confirmation(), ExpectResourceVersions: true}
	for _, d := range documents {
		sent, err := SentDocument(d, VersionOf(d))
		if err != nil {
			return err
		}
		req.Documents = append(req.Documents, sent)
	}
	resp, err := session.Change(ctx, s, adminv1.AdminServiceClient.Apply, req)
	if err != nil {
		return err
	}
	return o.Conclude(ctx, s, resp)
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Version     string            `json:"resourceVersion,omitempty"`
}

// VersionOf returns the revision that a document was made from, "" if it does not say or that is no
// revision of ours: an object of a cluster has a version of that cluster, and secrets are not read
// from here.
func VersionOf(d *kinds.Document) string {
	if d.UID != "" || d.Resource.Kind == kinds.Secret {
		return ""
	}
	return d.ResourceVersion
}

// SentDocument encodes the parsed document on one line. So the server sees the default namespace,
// and reports problems at the document's first line. version is the revision that the resource has to be at, "" for any.
func SentDocument(d *kinds.Document, version string) (*adminv1.Document, error) {
	r := d.Resource
	if r.Kind == kinds.Secret {
		return sentSecret(d, metadata{r.Name, r.Namespace, r.Labels, nil, ""})
	}
	content, err := json.Marshal(struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   metadata        `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
	}{r.Kind.APIVersion(), r.Kind.Name, metadata{r.Name, r.Namespace, r.Labels, r.Annotations, version}, d.Spec})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.Key(), err)
	}
	return &adminv1.Document{Content: content, File: d.File, Index: int32(d.Index), Line: int32(d.Line)}, nil
}

// sentSecret is SentDocument for a secret, which has a type and data in place of a spec.
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

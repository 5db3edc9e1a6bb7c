package rollout

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// ListRefusals lists what proxies refuse. What that was made from is told as far as the caller may
// see it, whichever namespaces it asks for.
func (s *Service) ListRefusals(ctx context.Context, req *adminv1.ListRefusalsRequest) (*adminv1.ListRefusalsResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the proxies")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	list, err := s.store.Refusals(ctx, readableBy(ctx), namespaces, req.GetProxy())
	if err != nil {
		return nil, failure.Status(s.log, "what proxies refuse", err)
	}
	resp := &adminv1.ListRefusalsResponse{}
	for _, r := range list {
		resp.Refusals = append(resp.Refusals, refusedOf(r))
	}
	return resp, nil
}

// readableBy returns the namespaces that the caller may read; nil for all.
func readableBy(ctx context.Context) []string {
	namespaces, all := caller.From(ctx).Within(caller.Read)
	if all {
		return nil
	}
	return append([]string{}, namespaces...)
}

func refusedOf(r rollout.RefusedResource) *adminv1.RefusedResource {
	of := &adminv1.RefusedResource{
		Namespace: r.Namespace, Proxy: r.Proxy, Discovery: r.Discovery, TypeUrl: r.TypeURL, EnvoyResource: r.Resource, Reason: r.Reason, Since: stamp.Of(r.Since),
		Revision: r.Revision, Author: r.Author,
	}
	if r.Source.Kind != "" {
		of.Resource, of.Path = refOf(r.Source.Resource), r.Source.Path
	}
	for _, source := range r.Sources {
		of.Sources = append(of.Sources, refOf(source.Resource))
	}
	return of
}

func refOf(r rollout.Resource) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

package rollout

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	"github.com/pgmesh/pgmesh/mcp-server/reference"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
)

// ListRunners lists the connected proxies that a resource concerns.
func (s *Service) ListRunners(ctx context.Context, req *adminv1.ListRunnersRequest) (*adminv1.ListRunnersResponse, error) {
	key, err := keyOf(req.GetResource())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "resource: %v", err)
	}
	if _, err := caller.From(ctx).Readable([]string{key.Namespace}, "see the proxies"); err != nil {
		return nil, caller.StatusOf(err)
	}
	revision, list, ok, err := s.store.Runners(ctx, readableBy(ctx), key)
	switch {
	case err != nil:
		return nil, failure.Status(s.log, "who runs a resource", err)
	case !ok:
		return nil, status.Errorf(codes.NotFound, "there is no %s", key)
	}
	resp := &adminv1.ListRunnersResponse{Revision: revision}
	for _, r := range list {
		resp.Runners = append(resp.Runners, &adminv1.ListRunnersResponse_Runner{Proxy: proxyOf(r.Listed), Runs: r.RunsIt})
	}
	return resp, nil
}

func keyOf(ref *adminv1.ResourceRef) (key kinds.Key, err error) {
	key = kinds.Key{Namespace: namespaceOf(ref.GetNamespace()), Name: store.Storable(ref.GetName())}
	key.Kind, err = reference.Kind(ref)
	return key, err
}

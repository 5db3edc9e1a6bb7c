package rollout

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	"github.com/pgmesh/pgmesh/mcp-server/reference"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// ListStatus lists what became of resources. It counts the proxies that the caller may see.
func (s *Service) ListStatus(ctx context.Context, req *adminv1.ListStatusRequest) (*adminv1.ListStatusResponse, error) {
	named := make([]string, len(req.GetNamespaces()))
	for i, namespace := range req.GetNamespaces() {
		named[i] = namespaceOf(namespace)
	}
	of := rollout.Selection{}
	for i, word := range req.GetKinds() {
		kind, err := kinds.ByName(word)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "kinds[%d]: %v", i, err)
		}
		of.Kinds = append(of.Kinds, kind)
	}
	for _, name := range req.GetNames() {
		of.Names = append(of.Names, store.Storable(name))
	}
	var err error
	if of.Namespaces, err = caller.From(ctx).Readable(named, "see what became of resources"); err != nil {
		return nil, caller.StatusOf(err)
	}
	list, err := s.store.Statuses(ctx, readableBy(ctx), of)
	if err != nil {
		return nil, failure.Status(s.log, "what became of resources", err)
	}
	resp := &adminv1.ListStatusResponse{}
	for _, r := range list {
		one, err := statusOf(r)
		if err != nil {
			return nil, failure.Status(s.log, "what became of resources", err)
		}
		resp.Statuses = append(resp.Statuses, one)
	}
	return resp, nil
}

func namespaceOf(named string) string { return store.Storable(reference.Namespace(named)) }

func statusOf(r rollout.Status) (*adminv1.ResourceStatus, error) {
	of := &adminv1.ResourceStatus{Resource: refOf(r.Resource), ObservedRevision: r.Revision, Concerned: r.Concerned, Running: r.Running, Refusing: r.Refusing}
	for _, c := range r.Conditions {
		of.Conditions = append(of.Conditions, &adminv1.ResourceStatus_Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionAt: stamp.Of(c.Since),
		})
	}
	if r.Own == nil {
		return of, nil
	}
	of.Status = &structpb.Struct{}
	return of, of.GetStatus().UnmarshalJSON(r.Own)
}

package admin

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// maxPortionSize is the most resources, changes or diffs in one message of a stream.
const maxPortionSize = 200

// Export streams resources as they are stored.
func (s *Service) Export(req *adminv1.ExportRequest, stream grpc.ServerStreamingServer[adminv1.ExportResponse]) error {
	ctx := stream.Context()
	of, err := kindsOf(req.GetKinds())
	if err != nil {
		return s.fail(ctx, err)
	}
	answer := &adminv1.ExportResponse{}
	selection, at := resources.Selection{Namespaces: req.GetNamespaces(), Kinds: of}, store.Moment{}
	if req.GetRevision() != 0 {
		at = store.When(req.GetRevision())
	}
	if err := narrow(ctx, caller.Read, &selection); err != nil {
		return err
	}
	revision, err := s.resources.Export(ctx, selection, at, func(r *store.Resource) error {
		if answer.Resources = append(answer.Resources, exported(r)); len(answer.Resources) < maxPortionSize {
			return nil
		}
		err := stream.Send(answer)
		answer = &adminv1.ExportResponse{}
		return err
	})
	if err != nil {
		return s.failStream(ctx, err)
	}
	answer.Revision = revision
	return stream.Send(answer)
}

func exported(r *store.Resource) *adminv1.ExportedResource {
	return &adminv1.ExportedResource{Resource: refTo(r.Key), Labels: r.Labels, Annotations: r.Annotations, Spec: r.Spec}
}

func kindsOf(refs []*adminv1.KindRef) ([]*kinds.Kind, error) {
	var of []*kinds.Kind
	for _, ref := range refs {
		kind, known := kinds.Lookup(ref.GetGroup(), ref.GetKind())
		if !known {
			return nil, kinds.Errors{{Kind: ref.GetKind(), Reason: fmt.Sprintf("unknown kind %q of group %q", ref.GetKind(), ref.GetGroup())}}
		}
		of = append(of, kind)
	}
	return of, nil
}

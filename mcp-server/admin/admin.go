// Package admin lets clients change the mesh over gRPC: a request is one transaction of the store, all of it or nothing.
//
// What is wrong with the resources of a request is told in full and at once, with the place that each was written at, in a
// form that the caller's program can rebuild.
package admin

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
)

// Service is the admin API on top of a store.
type Service struct {
	adminv1.UnimplementedAdminServiceServer

	store  *store.Store
	served func(context.Context, store.Revision) error
	log    *slog.Logger
}

// New returns the API of a store. Served waits until readers of this server are served a revision: a change is answered then, so
// that whoever reads after it finds it.
func New(s *store.Store, served func(context.Context, store.Revision) error, log *slog.Logger) *Service {
	return &Service{store: s, served: served, log: log}
}

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { adminv1.RegisterAdminServiceServer(r, s) }

// Apply creates or replaces the resources of the request.
func (s *Service) Apply(ctx context.Context, req *adminv1.ApplyRequest) (*adminv1.ApplyResponse, error) {
	o, err := originOf(ctx, req)
	if err != nil {
		return nil, err
	}
	documents, err := read(req.GetDocuments())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	upserts, keys := upsertsOf(documents)
	change := o.change(req.GetDryRun())
	change.Upserts = upserts
	applied, err := s.change(ctx, change)
	if err != nil {
		return nil, s.fail(ctx, placed(err, documents))
	}
	return &adminv1.ApplyResponse{
		Revision: applied.Revision, Outcomes: outcomes(keys, applied.Outcomes),
		Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted),
	}, nil
}

func upsertsOf(documents []*kinds.Document) (upserts []store.Upsert, keys []kinds.Key) {
	for _, d := range documents {
		keys = append(keys, d.Resource.Key())
		upserts = append(upserts, store.Upsert{Key: d.Resource.Key(), Labels: d.Resource.Labels, Annotations: d.Resource.Annotations, Spec: d.Spec})
	}
	return upserts, keys
}

// Delete removes the resources that the request names.
func (s *Service) Delete(ctx context.Context, req *adminv1.DeleteRequest) (*adminv1.DeleteResponse, error) {
	o, err := originOf(ctx, req)
	if err != nil {
		return nil, err
	}
	keys, err := resolve(req.GetResources())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	change := o.change(req.GetDryRun())
	for {
		change.Deletes = keys
		applied, err := s.change(ctx, change)
		if err == nil {
			return &adminv1.DeleteResponse{
				Revision: applied.Revision, Outcomes: outcomes(keys, applied.Outcomes),
				Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted),
			}, nil
		}
		absent := missing(err)
		if !req.GetAllowMissing() || len(absent) == 0 {
			return nil, s.fail(ctx, err)
		}
		// Nothing was deleted. Each round leaves out at least one, so there is an end to them.
		keys = without(keys, absent)
	}
}

const (
	// conflicts is how often a change that another transaction stood in the way of is tried.
	conflicts = 5
	// serveWithin bounds how long the answer to a change that is committed waits for readers to be served it.
	serveWithin = time.Second
)

func (s *Service) change(ctx context.Context, a store.Apply) (applied store.Applied, err error) {
	for range conflicts {
		applied, err = s.store.Apply(ctx, a)
		if !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if err == nil && applied.Revision > 0 {
		s.awaitServed(ctx, applied.Revision)
	}
	return applied, err
}

func (s *Service) awaitServed(ctx context.Context, r store.Revision) {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	if err := s.served(ctx, r); err != nil {
		s.log.WarnContext(ctx, "a change is committed and not served yet", "revision", r, "error", err)
	}
}

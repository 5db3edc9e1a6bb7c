package admin

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/caller"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

const (
	defaultPageSize = 500
	maxPageSize     = 2000
	// maxAnswerBytes stays below the 4 MiB that gRPC clients accept by default.
	maxAnswerBytes = 3 << 20
)

// Get reads one resource.
func (s *Service) Get(ctx context.Context, req *adminv1.GetRequest) (*adminv1.GetResponse, error) {
	var f fields
	key, at := f.resource(req.GetResource()), f.asOf(req)
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := require(ctx, caller.Read, key); err != nil {
		return nil, err
	}
	found, err := s.resources.GetAsOf(ctx, key, at)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	r, err := resourceOf(found)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &adminv1.GetResponse{Resource: r}, nil
}

// asOf reads the moment that a request wants to read at; the zero moment if it names none.
func (f *fields) asOf(req any) store.Moment {
	switch r := req.(type) {
	case *adminv1.GetRequest:
		if v, given := r.GetAsOf().(*adminv1.GetRequest_Revision); given {
			return f.moment("", &v.Revision, nil)
		}
		return f.moment("", nil, r.GetTime())
	case *adminv1.ListRequest:
		if v, given := r.GetAsOf().(*adminv1.ListRequest_Revision); given {
			return f.moment("", &v.Revision, nil)
		}
		return f.moment("", nil, r.GetTime())
	}
	return store.Moment{}
}

// List reads a page of resources.
func (s *Service) List(ctx context.Context, req *adminv1.ListRequest) (*adminv1.ListResponse, error) {
	var f fields
	q := resources.Query{Selection: f.selection(req), At: f.asOf(req), AtMost: f.size(req.GetPageSize(), defaultPageSize, maxPageSize), MaxSize: maxAnswerBytes}
	q.Labels, q.Where = f.labels(req.GetLabelSelector()), f.where(req.GetWhere())
	token := f.listToken(req)
	if token != nil {
		q.At, q.After = store.When(token.Revision), token.after()
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := narrow(ctx, caller.Read, &q.Selection); err != nil {
		return nil, err
	}
	page, err := s.resources.Select(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	answer := &adminv1.ListResponse{Revision: page.Revision}
	for _, found := range page.Resources {
		r, err := resourceOf(found)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		answer.Resources = append(answer.Resources, r)
	}
	if page.More {
		answer.NextPageToken = listTokenAfter(page, req).String()
	}
	return answer, nil
}

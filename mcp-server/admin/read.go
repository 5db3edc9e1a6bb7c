package admin

import (
	"context"
	"errors"

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

// Get reads one resource, of the database or, if that has none, of a registry.
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
	if errors.Is(err, store.ErrNotFound) && at.IsNow() {
		if joined, wrong := s.getJoined(key); joined != nil || wrong != nil {
			return &adminv1.GetResponse{Resource: joined}, wrong
		}
	}
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

// List reads a page of resources: first those of the database, then those of registries.
func (s *Service) List(ctx context.Context, req *adminv1.ListRequest) (*adminv1.ListResponse, error) {
	var f fields
	q, token, err := f.query(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := &adminv1.ListResponse{}
	if token != nil && token.Joined {
		answer.Revision = token.Revision
	} else if more, err := s.listOwn(ctx, req, &q, answer); more || err != nil {
		return answer, s.failed(ctx, err)
	}
	if err := s.addJoined(ctx, req, q, answer); err != nil {
		return answer, s.failed(ctx, err)
	}
	return answer, s.failed(ctx, s.addUnknown(ctx, req, q, answer))
}

// query reads what a list asks for, as far as the caller may read it, and where its page begins.
func (f *fields) query(ctx context.Context, req *adminv1.ListRequest) (q resources.Query, at *token, err error) {
	q = resources.Query{Selection: f.selection(req), At: f.asOf(req), AtMost: f.size(req.GetPageSize(), defaultPageSize, maxPageSize), MaxSize: maxAnswerBytes}
	q.Labels, q.Where = f.labels(req.GetLabelSelector()), f.where(req.GetWhere())
	if at = f.listToken(req); at != nil {
		q.At, q.After = store.When(at.Revision), at.after()
	}
	if err := f.err(); err != nil {
		return q, nil, err
	}
	return q, at, narrow(ctx, caller.Read, &q.Selection)
}

// listOwn fills a page with resources of the database, and reports whether there are more. If not,
// the query is what is left of the page.
func (s *Service) listOwn(ctx context.Context, req *adminv1.ListRequest, q *resources.Query, answer *adminv1.ListResponse) (more bool, err error) {
	page, err := s.resources.Select(ctx, *q)
	if err != nil {
		return false, err
	}
	answer.Revision = page.Revision
	for _, found := range page.Resources {
		r, err := resourceOf(found)
		if err != nil {
			return false, err
		}
		answer.Resources = append(answer.Resources, r)
		q.MaxSize -= len(found.Spec)
	}
	if page.More {
		answer.NextPageToken = listTokenAfter(page, req).String()
	}
	q.After = nil
	return page.More, nil
}

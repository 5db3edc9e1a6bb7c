package admin

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/caller"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/problems"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Problems lists what is wrong between committed resources.
func (s *Service) Problems(ctx context.Context, req *adminv1.ProblemsRequest) (*adminv1.ProblemsResponse, error) {
	var f fields
	namespaces := f.namespaces(req.GetNamespaces())
	if err := f.err(); err != nil {
		return nil, err
	}
	selection := resources.Selection{Namespaces: namespaces}
	if err := narrow(ctx, caller.Read, &selection); err != nil {
		return nil, err
	}
	found, err := s.problems.List(ctx, readingOf(ctx), selection.Namespaces...)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &adminv1.ProblemsResponse{Problems: readable(ctx, problemsOf(found))}, nil
}

func problemsOf(found []problems.Problem) []*adminv1.Problem {
	var list []*adminv1.Problem
	for _, p := range found {
		list = append(list, &adminv1.Problem{
			Severity: p.Severity, Code: p.Code, Path: p.Path, Message: p.Message, Hint: p.Hint,
			Resource: &adminv1.ResourceRef{Group: p.Group, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name},
		})
	}
	return list
}

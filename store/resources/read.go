package resources

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Get reads one resource; ErrNotFound if there is none.
func (s *Store) Get(ctx context.Context, k kinds.Key) (*store.Resource, error) {
	found, err := s.read(ctx, "reading "+k.String(), sql.Get, k.Kind.Name, k.Kind.Group, k.Namespace, k.Name)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &store.NotFoundError{Key: k}
	}
	return found[0], nil
}

// List reads the resources of a kind, sorted by name, in one namespace or, if that is empty, in
// all. A nil kind stands for all kinds.
func (s *Store) List(ctx context.Context, kind *kinds.Kind, namespace string) ([]*store.Resource, error) {
	var name, group string
	if kind != nil {
		name, group = kind.Name, kind.Group
	}
	return s.read(ctx, "listing resources", sql.List, name, group, namespace)
}

func (s *Store) read(ctx context.Context, doing, query string, args ...any) ([]*store.Resource, error) {
	all, err := s.db.Pool().Query(ctx, query, args...)
	if err != nil {
		return nil, store.Explain(doing, err)
	}
	var found []*store.Resource
	err = rows.EachResource(s.db, all, func(r *store.Resource) error {
		found = append(found, r)
		return nil
	})
	return found, store.Explain(doing, err)
}

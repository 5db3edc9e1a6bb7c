package store

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
)

// Get reads one resource; ErrNotFound if there is none.
func (s *Store) Get(ctx context.Context, k kinds.Key) (*Resource, error) {
	found, err := s.read(ctx, "reading "+k.String(), "WHERE kind = $1 AND api_group = $2 AND namespace = $3 AND name = $4",
		k.Kind.Name, k.Kind.Group, k.Namespace, k.Name)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &NotFoundError{k}
	}
	return found[0], nil
}

// List reads the resources of a kind, sorted by name, in one namespace or, if that is empty, in all. A
// nil kind stands for all kinds.
func (s *Store) List(ctx context.Context, kind *kinds.Kind, namespace string) ([]*Resource, error) {
	var name, group string
	if kind != nil {
		name, group = kind.Name, kind.Group
	}
	return s.read(ctx, "listing resources",
		`WHERE ($1 = '' OR kind = $1 AND api_group = $2) AND ($3 = '' OR namespace = $3)
		 ORDER BY kind COLLATE "C", api_group COLLATE "C", namespace COLLATE "C", name COLLATE "C"`, name, group, namespace)
}

func (s *Store) read(ctx context.Context, doing, where string, args ...any) ([]*Resource, error) {
	rows, err := s.pool.Query(ctx, "SELECT api_group, kind, namespace, name, "+bodyColumns+" FROM "+resourceRows+" r "+where, args...)
	if err != nil {
		return nil, Explain(doing, err)
	}
	var found []*Resource
	err = s.eachResource(rows, func(r *Resource) error {
		found = append(found, r)
		return nil
	})
	return found, Explain(doing, err)
}

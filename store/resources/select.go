package resources

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Query selects a page of resources.
type Query struct {
	Selection
	At      store.Moment
	After   *kinds.Key // continue after this one; nil starts at the first
	AtMost  int        // the most resources to return
	MaxSize int        // the most bytes to return, but at least one resource
}

// Page is a page of resources, in a stable order of their keys.
type Page struct {
	Resources []*store.Resource
	Revision  store.Revision // the revision that they are of
	More      bool           // there are more after the last
}

// Select reads a page of resources, as of now or an earlier moment.
func (s *Store) Select(ctx context.Context, q Query) (Page, error) {
	var page Page
	err := s.db.Reading(ctx, func(tx pgx.Tx) error {
		at, newest, err := q.At.Resolve(ctx, tx)
		if err != nil {
			return err
		}
		page.Revision = at
		query := sql.SelectPast
		if at == newest {
			query = sql.SelectNow
		}
		found, err := tx.Query(ctx, query, q.arguments(at)...)
		if err != nil {
			return err
		}
		return s.fill(&page, found, q)
	})
	return page, store.Explain("listing resources", err)
}

func (s *Store) fill(page *Page, found pgx.Rows, q Query) error {
	size := 0
	return rows.EachResource(s.db, found, func(r *store.Resource) error {
		size += len(r.Spec)
		page.More = page.More || len(page.Resources) == q.AtMost || size > q.MaxSize && len(page.Resources) > 0
		if !page.More {
			page.Resources = append(page.Resources, r)
		}
		return nil
	})
}

func (q Query) arguments(at store.Revision) []any {
	var after struct{ kind, group, namespace, name *string }
	if k := q.After; k != nil {
		after.kind, after.group, after.namespace, after.name = &k.Kind.Name, &k.Kind.Group, &k.Namespace, &k.Name
	}
	return append(q.Selection.arguments(at), after.kind, after.group, after.namespace, after.name, q.AtMost+1)
}

// GetAsOf reads one resource as of a moment; ErrNotFound if there was none.
func (s *Store) GetAsOf(ctx context.Context, k kinds.Key, at store.Moment) (*store.Resource, error) {
	if at.IsNow() {
		return s.Get(ctx, k)
	}
	only := Selection{Kinds: []*kinds.Kind{k.Kind}, Namespaces: []string{k.Namespace}, Names: []string{k.Name}}
	page, err := s.Select(ctx, Query{Selection: only, At: at, AtMost: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Resources) == 0 {
		return nil, &store.NotFoundError{Key: k}
	}
	return page.Resources[0], nil
}

// Fit reports of each spec whether it meets a predicate, as of a Selection. What is no JSON does not.
func (s *Store) Fit(ctx context.Context, where string, specs []string) ([]bool, error) {
	rows, err := s.db.Pool().Query(ctx, sql.Fit, where, specs)
	if err != nil {
		return nil, store.Explain("looking for resources", err)
	}
	fits, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	return fits, store.Explain("looking for resources", err)
}

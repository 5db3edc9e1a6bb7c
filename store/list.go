package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Query selects a page of resources.
type Query struct {
	Selection
	At      Moment
	After   *kinds.Key // continue after this one; nil starts at the first
	AtMost  int        // the most resources to return
	MaxSize int        // the most bytes to return, but at least one resource
}

// Page is a page of resources, in a stable order of their keys.
type Page struct {
	Resources []*Resource
	Revision  Revision // the revision that they are of
	More      bool     // there are more after the last
}

// Select reads a page of resources, as of now or an earlier moment.
func (s *Store) Select(ctx context.Context, q Query) (Page, error) {
	var page Page
	err := s.Reading(ctx, func(tx pgx.Tx) error {
		at, newest, err := q.At.resolve(ctx, tx)
		if err != nil {
			return err
		}
		page.Revision = at
		rows, err := tx.Query(ctx, selectQuery(at == newest), q.arguments(at)...)
		if err != nil {
			return err
		}
		return s.fill(&page, rows, q)
	})
	return page, Explain("listing resources", err)
}

func (s *Store) fill(page *Page, rows pgx.Rows, q Query) error {
	size := 0
	return s.eachResource(rows, func(r *Resource) error {
		size += len(r.Spec)
		page.More = page.More || len(page.Resources) == q.AtMost || size > q.MaxSize && len(page.Resources) > 0
		if !page.More {
			page.Resources = append(page.Resources, r)
		}
		return nil
	})
}

func (q Query) arguments(at Revision) []any {
	var after struct{ kind, group, namespace, name *string }
	if k := q.After; k != nil {
		after.kind, after.group, after.namespace, after.name = &k.Kind.Name, &k.Kind.Group, &k.Namespace, &k.Name
	}
	return append(q.Selection.arguments(at), after.kind, after.group, after.namespace, after.name, q.AtMost+1)
}

// selectQuery reads a page in the order of the primary key, by its index. For the past it leaves out
// resources that changed since, and adds their earlier versions from history, so the cost depends on the
// page and the changes, not on the size of the mesh. NOT IN becomes a hashed filter, which keeps the
// order of the index and does not compare everything with everything.
func selectQuery(newest bool) string {
	if newest {
		return selectFrom(resourceRows, "true")
	}
	return `WITH changed AS MATERIALIZED (
			SELECT * FROM mesh.changed_since(mesh.known_revision($1), (SELECT array_agg(DISTINCT k) FROM unnest($3::text[]) k), $4, $5)),
		untouched AS MATERIALIZED (` + selectFrom(resourceRows,
		"(kind, api_group, namespace, name) NOT IN (SELECT kind, api_group, namespace, name FROM changed)") + `),
		touched AS MATERIALIZED (` + selectFrom("changed", "spec IS NOT NULL") + `)
		SELECT * FROM (SELECT * FROM untouched UNION ALL SELECT * FROM touched) page ORDER BY kind, api_group, namespace, name LIMIT $12`
}

func selectFrom(rows, condition string) string {
	return "SELECT api_group, kind, namespace, name, " + bodyColumns + " FROM " + rows + " r WHERE " + condition + " AND " + selected + `
		AND ($8::text IS NULL OR (kind, api_group, namespace, name) > ($8, $9::text, $10::text, $11::text))
		ORDER BY kind, api_group, namespace, name LIMIT $12`
}

// GetAsOf reads one resource as of a moment; ErrNotFound if there was none.
func (s *Store) GetAsOf(ctx context.Context, k kinds.Key, at Moment) (*Resource, error) {
	if at.IsNow() {
		return s.Get(ctx, k)
	}
	only := Selection{Kinds: []*kinds.Kind{k.Kind}, Namespaces: []string{k.Namespace}, Names: []string{k.Name}}
	page, err := s.Select(ctx, Query{Selection: only, At: at, AtMost: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Resources) == 0 {
		return nil, &NotFoundError{k}
	}
	return page.Resources[0], nil
}

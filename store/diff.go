package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Difference asks how resources differ between two moments. To may be earlier than From.
type Difference struct {
	Selection // labels and Where do not count
	From, To  Moment
}

// ResourceDiff is the difference of one resource. A created or deleted resource has one field without a
// path, whose value is the whole.
type ResourceDiff struct {
	Key       kinds.Key
	Operation Operation
	Fields    []FieldDiff
}

// FieldDiff is a field that differs. Before or After is nil where the field does not exist.
type FieldDiff struct {
	Path          string
	Before, After json.RawMessage
}

const diffQuery = "SELECT api_group, kind, namespace, name, operation, path, before, after FROM mesh.diff($1::bigint, $2::bigint, $3, $4, $5)"

// Diff first calls begins with the revisions that it compares, and then each with every resource that
// differs, in the order of their keys. It returns the first error of these calls.
func (s *Store) Diff(ctx context.Context, d Difference, begins func(from, to Revision) error, each func(*ResourceDiff) error) error {
	err := s.Reading(ctx, func(tx pgx.Tx) error {
		from, _, err := d.From.resolve(ctx, tx)
		if err != nil {
			return err
		}
		to, _, err := d.To.resolve(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, diffQuery, from, to, d.kindNames(), d.Namespaces, d.Names)
		if err != nil {
			return err
		}
		defer rows.Close()
		more := rows.Next() // waits for the query, so that its error comes first
		if err := rows.Err(); err != nil {
			return err
		}
		if err := begins(from, to); err != nil {
			return OfCaller(err)
		}
		return s.eachDiff(rows, more, d, each)
	})
	return Explain("comparing revisions", err)
}

// eachDiff gathers the fields of each resource.
func (s *Store) eachDiff(rows pgx.Rows, more bool, d Difference, each func(*ResourceDiff) error) error {
	var current *ResourceDiff
	hand := func() error {
		if current == nil {
			return nil
		}
		if err := each(current); err != nil {
			return OfCaller(err)
		}
		return nil
	}
	for ; more; more = rows.Next() {
		var k key
		var operation Operation
		var f FieldDiff
		if err := rows.Scan(&k.group, &k.kind, &k.namespace, &k.name, &operation, &f.Path, &f.Before, &f.After); err != nil {
			return err
		}
		known, ok := s.resolve(k, 0)
		if !ok || !d.isOf(k.group, k.kind) {
			continue
		}
		if current == nil || current.Key != known {
			if err := hand(); err != nil {
				return err
			}
			current = &ResourceDiff{Key: known, Operation: operation}
		}
		current.Fields = append(current.Fields, f)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return hand()
}

package history

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Difference asks how resources differ between two moments. To may be earlier than From.
type Difference struct {
	resources.Selection // labels and Where do not count
	From, To            store.Moment
}

// ResourceDiff is the difference of one resource. A created or deleted resource has one field
// without a path, whose value is the whole.
type ResourceDiff struct {
	Key       kinds.Key
	Operation store.Operation
	Fields    []FieldDiff
}

// FieldDiff is a field that differs. Before or After is nil where the field does not exist.
type FieldDiff struct {
	Path          string
	Before, After json.RawMessage
}

// Diff first calls begins with the revisions that it compares, and then each with every resource
// that differs, in the order of their keys. It returns the first error of these calls.
func (s *Store) Diff(ctx context.Context, d Difference, begins func(from, to store.Revision) error, each func(*ResourceDiff) error) error {
	err := s.db.Reading(ctx, func(tx pgx.Tx) error {
		from, _, err := d.From.Resolve(ctx, tx)
		if err != nil {
			return err
		}
		to, _, err := d.To.Resolve(ctx, tx)
		if err != nil {
			return err
		}
		found, err := tx.Query(ctx, sql.Diff, from, to, d.KindNames(), d.Namespaces, d.Names)
		if err != nil {
			return err
		}
		defer found.Close()
		more := found.Next() // waits for the query, so that its error comes first
		if err := found.Err(); err != nil {
			return err
		}
		if err := begins(from, to); err != nil {
			return store.OfCaller(err)
		}
		return s.eachDiff(found, more, d, each)
	})
	return store.Explain("comparing revisions", err)
}

// eachDiff gathers the fields of each resource.
func (s *Store) eachDiff(found pgx.Rows, more bool, d Difference, each func(*ResourceDiff) error) error {
	var current *ResourceDiff
	hand := func() error {
		if current == nil {
			return nil
		}
		if err := each(current); err != nil {
			return store.OfCaller(err)
		}
		return nil
	}
	for ; more; more = found.Next() {
		var k rows.Key
		var operation store.Operation
		var f FieldDiff
		if err := found.Scan(append(k.Targets(), &operation, &f.Path, &f.Before, &f.After)...); err != nil {
			return err
		}
		known, ok := k.Known(s.db, 0)
		if !ok || !d.Has(k.Group, k.Kind) {
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
	if err := found.Err(); err != nil {
		return err
	}
	return hand()
}

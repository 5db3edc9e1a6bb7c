package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// pastRow is a row of PastChanges.
type pastRow struct {
	revision      store.Revision
	key           rows.Key
	operation     store.Operation
	before, after *document
	ofRevision    int
}

// document is a resource in history.
type document struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        json.RawMessage   `json:"spec"`
}

func (d *document) resource(k kinds.Key) *store.Resource {
	if d == nil {
		return nil
	}
	return &store.Resource{Key: k, Labels: d.Labels, Annotations: d.Annotations, Spec: d.Spec}
}

func (d *document) size() int {
	if d == nil {
		return 0
	}
	return len(d.Spec)
}

// addChanges adds to revisions what they changed.
func (s *Store) addChanges(ctx context.Context, tx pgx.Tx, q Query, found []PastRevision) error {
	numbers := make([]store.Revision, len(found))
	at := map[store.Revision]*PastRevision{}
	for i := range found {
		numbers[i], at[found[i].Revision] = found[i].Revision, &found[i]
	}
	of := q.arguments(0, 0, 0)[4:8]
	all, err := tx.Query(ctx, sql.PastChanges, append(append([]any{numbers}, of...), q.Documents, q.Changes)...)
	if err != nil {
		return err
	}
	var row pastRow
	targets := slices.Concat([]any{&row.revision}, row.key.Targets(), []any{&row.operation, &row.before, &row.after, &row.ofRevision})
	size := 0
	_, err = pgx.ForEachRow(all, targets, func() error {
		r := at[row.revision]
		if r.Changes == nil {
			r.Omitted = row.ofRevision
		}
		size += row.before.size() + row.after.size()
		if size <= q.MaxSize {
			s.addPast(r, &row)
		}
		row.before, row.after = nil, nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading what was changed: %w", err)
	}
	return nil
}

func (s *Store) addPast(r *PastRevision, row *pastRow) {
	k, known := row.key.Known(s.db, row.revision)
	if !known {
		return
	}
	change := PastChange{Key: k, Operation: row.operation, Before: row.before.resource(k), After: row.after.resource(k)}
	if change.After != nil {
		change.After.Revision, change.After.Updated = r.Revision, r.Time
	}
	r.Changes = append(r.Changes, change)
	r.Omitted--
}

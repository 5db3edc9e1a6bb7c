package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// changesQuery reads the changes of some revisions, up to a number of each, and how many there are.
const changesQuery = `
	SELECT revision, api_group, kind, namespace, name, operation, before, after, of_revision FROM (
		SELECT h.revision, h.api_group, h.kind, h.namespace, h.name, h.operation,
			CASE WHEN $6 THEN h.before END AS before, CASE WHEN $6 THEN h.after END AS after,
			row_number() OVER w AS n, count(*) OVER (PARTITION BY h.revision) AS of_revision
		FROM mesh.history h
		WHERE h.revision = ANY ($1) AND ($2::text[] IS NULL OR (h.kind, h.api_group) IN (SELECT * FROM unnest($2::text[], $3::text[])))
			AND ($4::text[] IS NULL OR h.namespace = ANY ($4)) AND ($5::text[] IS NULL OR h.name = ANY ($5))
		WINDOW w AS (PARTITION BY h.revision ORDER BY h.kind COLLATE "C", h.api_group COLLATE "C", h.namespace COLLATE "C", h.name COLLATE "C")) numbered
	WHERE n <= $7 ORDER BY revision DESC, n`

// pastRow is a row of changesQuery.
type pastRow struct {
	revision      Revision
	key           key
	operation     Operation
	before, after *document
	ofRevision    int
}

// document is a resource in history.
type document struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        json.RawMessage   `json:"spec"`
}

func (d *document) resource(k kinds.Key) *Resource {
	if d == nil {
		return nil
	}
	return &Resource{Key: k, Labels: d.Labels, Annotations: d.Annotations, Spec: d.Spec}
}

func (d *document) size() int {
	if d == nil {
		return 0
	}
	return len(d.Spec)
}

// addChanges adds to revisions what they changed.
func (s *Store) addChanges(ctx context.Context, tx pgx.Tx, q HistoryQuery, found []PastRevision) error {
	numbers := make([]Revision, len(found))
	at := map[Revision]*PastRevision{}
	for i := range found {
		numbers[i], at[found[i].Revision] = found[i].Revision, &found[i]
	}
	of := q.pastArguments(0, 0, 0)[4:8]
	rows, err := tx.Query(ctx, changesQuery, append(append([]any{numbers}, of...), q.Documents, q.Changes)...)
	if err != nil {
		return err
	}
	var row pastRow
	targets := []any{&row.revision, &row.key.group, &row.key.kind, &row.key.namespace, &row.key.name, &row.operation, &row.before, &row.after, &row.ofRevision}
	size := 0
	_, err = pgx.ForEachRow(rows, targets, func() error {
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
	k, known := s.resolve(row.key, row.revision)
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

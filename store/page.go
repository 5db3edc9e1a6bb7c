package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A page has at most so many revisions, and ends with the revision that brings it to so many changes.
const (
	pageRevisions = 256
	pageChanges   = 4096
)

const pageQuery = `
WITH page AS (
  SELECT t.*, sum(size) OVER (ORDER BY revision) - size AS changes_before
  FROM (SELECT * FROM mesh.transactions WHERE revision > $1 ORDER BY revision LIMIT $2) t)
SELECT p.revision, p.author, p.application, p.message, p.time,
  c.api_group, c.kind, c.namespace, c.name,
  c.before_spec, c.before_labels, c.before_annotations,
  c.before_revision, c.before_generation, c.before_created_at, c.before_updated_at,
  c.after_spec, c.after_labels, c.after_annotations,
  p.revision, coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int,
  coalesce(c.before_created_at, p.time), p.time
FROM page p JOIN mesh.changes c ON c.transaction_id = p.id
WHERE p.changes_before < $3
ORDER BY p.revision, c.kind COLLATE "C", c.api_group COLLATE "C", c.namespace COLLATE "C", c.name COLLATE "C"`

// catchUp hands on all that is committed. It reads pages, so that neither memory nor the snapshot of a query grows with
// how far behind it is, and lets go of the connection while the caller works.
func (f *follower) catchUp(ctx context.Context, conn *pgx.Conn) error {
	for more := true; more; {
		page, cut, err := f.store.page(ctx, conn, f.seen)
		if err != nil {
			return err
		}
		more = cut
		for _, batch := range page {
			if batch.Revision != f.seen+1 {
				return fmt.Errorf("%w: %d was seen and the next one kept is %d", ErrTooOld, f.seen, batch.Revision)
			}
			if err := f.each(batch); err != nil {
				return callerError{err}
			}
			f.seen, f.at = batch.Revision, batch.Time
			f.store.status.saw(batch.Revision)
		}
	}
	return nil
}

// page reads the next batches after a revision, and tells whether there were too many for a page. What is committed after a
// page was read wakes the follower by itself.
func (s *Store) page(ctx context.Context, conn *pgx.Conn, after Revision) (page []Batch, cut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := conn.Query(ctx, pageQuery, after, pageRevisions, pageChanges)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	changes := 0
	for ; rows.Next(); changes++ {
		if page, err = s.addRow(page, rows); err != nil {
			return nil, false, err
		}
	}
	return page, len(page) >= pageRevisions || changes >= pageChanges, rows.Err()
}

// addRow adds one change to the last batch of the page, or to a new one.
func (s *Store) addRow(page []Batch, row pgx.Rows) ([]Batch, error) {
	var b Batch
	var k key
	var before, after body
	var at time.Time
	targets := []any{&b.Revision, &b.Author, &b.Application, &b.Message, &at, &k.group, &k.kind, &k.namespace, &k.name}
	targets = append(append(targets, before.targets()...), after.targets()...)
	if err := row.Scan(targets...); err != nil {
		return nil, err
	}
	b.Time = at
	if len(page) == 0 || page[len(page)-1].Revision != b.Revision {
		page = append(page, b)
	}
	known, ok := s.resolve(k, b.Revision)
	if !ok {
		return page, nil
	}
	change := Change{Key: known}
	var err error
	if change.Before, err = before.resource(known); err != nil {
		return nil, err
	}
	if change.After, err = after.resource(known); err != nil {
		return nil, err
	}
	last := &page[len(page)-1]
	last.Changes = append(last.Changes, change)
	return page, nil
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A page is bounded by these. But a larger revision is a page of its own, because a batch is whole.
const (
	pageRevisions = 256
	pageChanges   = 4096
)

// pageSettings keep Postgres from reading all of mesh.changes for a page, as it would after a bulk load
// has changed the statistics. The OFFSET 0 in the query does the same: it forces a lookup for each
// transaction.
const pageSettings = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off"

const pageQuery = `
WITH page AS (
  SELECT t.*, sum(size) OVER (ORDER BY revision) AS changes, count(*) OVER () AS revisions
  FROM (SELECT * FROM mesh.transactions WHERE revision > $1 ORDER BY revision LIMIT $2) t)
SELECT t.revisions, t.revision, ` + markColumn + `, t.author, t.application, t.message, t.time,
  t.secrets, coalesce(c.api_group, ''), coalesce(c.kind, ''), coalesce(c.namespace, ''), coalesce(c.name, ''),
  c.before_spec, c.before_labels, c.before_annotations,
  c.before_revision, c.before_generation, c.before_created_at, c.before_updated_at,
  c.after_spec, c.after_labels, c.after_annotations,
  t.revision, coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int,
  coalesce(c.before_created_at, t.begun_at), t.begun_at
FROM page t LEFT JOIN LATERAL (SELECT * FROM mesh.changes x WHERE x.transaction_id = t.id OFFSET 0) c ON true
WHERE (c.kind IS NOT NULL OR t.secrets) AND (t.changes <= $3 OR t.changes = t.size)
ORDER BY t.revision, c.kind COLLATE "C", c.api_group COLLATE "C", c.namespace COLLATE "C", c.name COLLATE "C"`

// catchUp passes on everything that is committed. It reads pages, so neither memory nor the snapshot of a
// query grows with the backlog. The connection is free while the caller works, and a batch is released
// once passed on.
func (f *follower) catchUp(ctx context.Context, conn *pgx.Conn) error {
	for more := true; more; {
		page, cut, err := f.store.page(ctx, conn, f.seen.Revision)
		if err != nil {
			return err
		}
		more = cut
		for i, batch := range page {
			page[i] = Batch{}
			if batch.Revision != f.seen.Revision+1 {
				return fmt.Errorf("%w: %d was seen and the next one kept is %d", ErrTooOld, f.seen.Revision, batch.Revision)
			}
			if err := f.each(batch); err != nil {
				return OfCaller(err)
			}
			f.seen = batch.Position()
			f.store.status.saw(batch.Revision)
		}
	}
	return nil
}

// page reads the next batches after a revision, and reports whether there were too many for a page. Later
// commits wake the follower.
func (s *Store) page(ctx context.Context, conn *pgx.Conn, after Revision) (page []Batch, cut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(QueryTimeout, cancel) // for each row, not for the page: a revision may be large
	defer silence.Stop()
	if page, cut, err = s.readPage(ctx, conn, after, func() { silence.Reset(QueryTimeout) }); err != nil {
		return nil, false, err
	}
	return page, cut, addSecrets(ctx, conn, page)
}

// readPage reads the page without secrets, and calls onRow for each row.
func (s *Store) readPage(ctx context.Context, conn *pgx.Conn, after Revision, onRow func()) (page []Batch, cut bool, err error) {
	rows, err := conn.Query(ctx, pageQuery, after, pageRevisions, pageChanges)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	var r pageRow
	targets := r.targets()
	for rows.Next() {
		onRow()
		if err := rows.Scan(targets...); err != nil {
			return nil, false, err
		}
		if len(page) == 0 || page[len(page)-1].Revision != r.batch.Revision {
			page = append(page, r.batch)
		}
		if err := s.addChange(&page[len(page)-1], &r); err != nil {
			return nil, false, err
		}
	}
	return page, r.revisionCount == pageRevisions || r.revisionCount > len(page), rows.Err()
}

// pageRow is one change, and its batch.
type pageRow struct {
	revisionCount int // there were for the page
	batch         Batch
	key           key
	before, after body
}

func (r *pageRow) targets() []any {
	b := &r.batch
	targets := []any{
		&r.revisionCount, &b.Revision, &b.Mark, &b.Author, &b.Application, &b.Message, &b.Time, &b.secret,
		&r.key.group, &r.key.kind, &r.key.namespace, &r.key.name,
	}
	return append(append(targets, r.before.targets()...), r.after.targets()...)
}

func (s *Store) addChange(b *Batch, r *pageRow) (err error) {
	if r.key.kind == "" { // the revision changed only secrets
		return nil
	}
	known, ok := s.resolve(r.key, b.Revision)
	if !ok {
		return nil
	}
	change := Change{Key: known}
	if change.Before, err = r.before.resource(known); err != nil {
		return err
	}
	if change.After, err = r.after.resource(known); err != nil {
		return err
	}
	b.Changes = append(b.Changes, change)
	return nil
}

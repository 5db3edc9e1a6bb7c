package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// A page is bounded by these. But a larger revision is a page of its own, because a batch is whole.
const (
	pageRevisions = 256
	pageChanges   = 4096
)

// catchUp passes on everything that is committed. It reads pages, so neither memory nor the
// snapshot of a query grows with the backlog. The connection is free while the caller works, and a
// batch is released once passed on.
func (f *follower) catchUp(ctx context.Context, conn *pgx.Conn) error {
	for more := true; more; {
		page, cut, err := f.feed.page(ctx, conn, f.seen)
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
				return store.OfCaller(err)
			}
			f.seen = batch.Position()
			f.feed.status.saw(batch.Revision)
		}
	}
	return nil
}

// page reads the next batches after a position, and reports whether there were too many for a page.
// Later commits wake the follower.
func (f *Feed) page(ctx context.Context, conn *pgx.Conn, after Position) (page []Batch, cut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(store.QueryTimeout, cancel) // for each row, not for the page: a revision may be large
	defer silence.Stop()
	if page, cut, err = f.readPage(ctx, conn, after, func() { silence.Reset(store.QueryTimeout) }); err != nil {
		return nil, false, err
	}
	return page, cut, addSecrets(ctx, conn, page)
}

// readPage reads the page without secrets, and calls onRow for each row.
func (f *Feed) readPage(ctx context.Context, conn *pgx.Conn, after Position, onRow func()) (page []Batch, cut bool, err error) {
	found, err := conn.Query(ctx, sql.Page, after.Revision, pageRevisions, pageChanges)
	if err != nil {
		return nil, false, err
	}
	defer found.Close()
	var r pageRow
	targets := r.targets()
	for found.Next() {
		onRow()
		if err := found.Scan(targets...); err != nil {
			return nil, false, err
		}
		if r.afterMark != "" && !after.is(r.afterMark) {
			return nil, false, after.gone()
		}
		if len(page) == 0 || page[len(page)-1].Revision != r.batch.Revision {
			page = append(page, r.batch)
		}
		if err := f.addChange(&page[len(page)-1], &r); err != nil {
			return nil, false, err
		}
	}
	return page, r.revisionCount == pageRevisions || r.revisionCount > len(page), found.Err()
}

// pageRow is one change, and its batch.
type pageRow struct {
	revisionCount int    // there were for the page
	afterMark     string // of the revision after which the page is, "" if that is not kept
	batch         Batch
	key           rows.Key
	before, after rows.Body
}

func (r *pageRow) targets() []any {
	b := &r.batch
	targets := []any{
		&r.revisionCount, &r.afterMark, &b.Revision, &b.Mark, &b.Author, &b.Application, &b.Message, &b.Begun, &b.Time, &b.secret,
	}
	return slices.Concat(targets, r.key.Targets(), r.before.Targets(), r.after.Targets())
}

func (f *Feed) addChange(b *Batch, r *pageRow) (err error) {
	if r.key.Kind == "" { // the revision changed only secrets
		return nil
	}
	known, ok := r.key.Known(f.db, b.Revision)
	if !ok {
		return nil
	}
	change := Change{Key: known}
	if change.Before, err = r.before.Resource(known); err != nil {
		return err
	}
	if change.After, err = r.after.Resource(known); err != nil {
		return err
	}
	b.Changes = append(b.Changes, change)
	return nil
}

// addSecrets adds to the batches of a page the secrets that they changed.
func addSecrets(ctx context.Context, conn *pgx.Conn, page []Batch) error {
	changed := map[store.Revision]*Batch{}
	var revisions []store.Revision
	for i := range page {
		if page[i].secret {
			changed[page[i].Revision] = &page[i]
			revisions = append(revisions, page[i].Revision)
		}
	}
	if len(revisions) == 0 {
		return nil
	}
	err := secrets.EachChange(ctx, conn, revisions, func(r store.Revision, c secrets.Change) {
		changed[r].Secrets = append(changed[r].Secrets, c)
	})
	for _, b := range changed {
		if err == nil && len(b.Secrets) == 0 {
			err = fmt.Errorf("%w: what revision %d has changed was just pruned", ErrTooOld, b.Revision)
		}
	}
	return err
}

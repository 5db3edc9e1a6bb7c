package rollout

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Counts is how far a revision has come. Concerned is the sum of the numbers after it. Times are
// zero as long as no proxy ran the revision.
type Counts struct {
	Concerned, Ran, Refused, ToAnswer, Away uint32
	First, Half, Last                       time.Time
}

// Progress is how far a revision has come in some namespaces.
type Progress struct {
	Revision  int64
	Committed time.Time
	Author    string // empty if the reader may not see the change
	Counts

	Parts []Share // if one revision was asked for
}

// Share is the same for a discovery and a namespace.
type Share struct {
	Discovery, Namespace string
	Counts
}

func (c *Counts) columns() []any {
	return []any{&c.Concerned, &c.Ran, &c.Refused, &c.ToAnswer, &c.Away, &c.First, &c.Half, &c.Last}
}

// Latest lists how far so many of the latest revisions have come, from one on, the newest first. It
// counts the proxies that the reader may know of.
func (s *Store) Latest(ctx context.Context, may []string, from int64, limit int) ([]Progress, error) {
	return read(ctx, s, may, "reading how far revisions have come", scanProgress, sql.Rollouts, from, limit)
}

// Of tells how far one revision has come, with its parts. There is none if it is not among the
// recent ones that the reader may know of.
func (s *Store) Of(ctx context.Context, may []string, revision int64) (list []Progress, err error) {
	err = s.reading(ctx, may, func(ctx context.Context, tx pgx.Tx) error {
		if list, err = ask(ctx, tx, scanProgress, sql.RolloutOf, revision); err != nil || len(list) == 0 {
			return err
		}
		list[0].Parts, err = ask(ctx, tx, scanShare, sql.RolloutParts, revision)
		return err
	})
	return list, store.Explain("reading how far a revision has come", err)
}

func scanProgress(row pgx.CollectableRow) (p Progress, err error) {
	err = row.Scan(append([]any{&p.Revision, &p.Committed, &p.Author}, p.columns()...)...)
	return p, err
}

func scanShare(row pgx.CollectableRow) (s Share, err error) {
	err = row.Scan(append([]any{&s.Discovery, &s.Namespace}, s.columns()...)...)
	return s, err
}

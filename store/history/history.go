// Package history tells what the resources of a database were and who changed them, and sets them
// back.
package history

import (
	"context"
	"embed"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/query"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Store is the history of a database. Its methods may be called concurrently.
type Store struct {
	db        *store.Store
	resources *resources.Store
}

// New returns the history of a database.
func New(db *store.Store) *Store { return &Store{db, resources.New(db)} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Bounds, PastRevisions, PastRevisionsOf, PastChanges, PastOfMachines string
	Blame, Diff                                                         string
	RestoreRevision, RestoreTime, Revert, Changer                       string
}](files)

// Query selects revisions that meet all its fields.
type Query struct {
	resources.Selection // revisions that changed such resources; labels and Where do not count

	Author       string
	Message      string         // a part of the message
	Since, Until time.Time      // of the revisions; zero means no limit
	Only         store.Revision // only this one
	Before       store.Revision // older than this one; 0 begins with the newest
	// WithoutMachines leaves out revisions that changed nothing but WorkloadEntries of machines.
	WithoutMachines bool

	AtMost    int // the most revisions to return
	Changes   int // the most changes to return of each
	Documents bool
	MaxSize   int // the most bytes of documents to return
}

// PastRevision is a revision in history.
type PastRevision struct {
	Revision                     store.Revision
	Author, Application, Message string
	Time                         time.Time
	Size                         int          // how many resources it changed
	Changes                      []PastChange // of selected resources, in the order of their keys
	Omitted                      int          // how many more of these there are
}

// PastChange is what a revision did to one resource. Before and After are set only if documents
// were asked for.
type PastChange struct {
	Key           kinds.Key
	Operation     store.Operation
	Before, After *store.Resource
}

// maxScanned bounds how many revisions one call searches.
const maxScanned = 100_000

// Page is a part of the history.
type Page struct {
	// Revisions are the newest first. There may be fewer than asked for, or none, and still a next.
	Revisions []PastRevision
	// Next is the revision to continue before; 0 if the search reached the oldest.
	Next store.Revision
	// LeftOut is how many revisions WithoutMachines has left out of what was searched.
	LeftOut int64
}

// Revisions returns revisions.
func (s *Store) Revisions(ctx context.Context, q Query) (p Page, err error) {
	err = s.db.Reading(ctx, func(tx pgx.Tx) error {
		low, high, err := q.bounds(ctx, tx)
		if err != nil {
			return err
		}
		if p.Revisions, p.Next, err = q.scan(ctx, tx, low, high); err != nil {
			return err
		}
		if p.LeftOut, err = q.countLeftOut(ctx, tx, max(low, p.Next-1), high); err != nil || len(p.Revisions) == 0 {
			return err
		}
		return s.addChanges(ctx, tx, q, p.Revisions)
	})
	return p, store.Explain("reading the history", err)
}

// countLeftOut counts the revisions that are left out.
func (q Query) countLeftOut(ctx context.Context, tx pgx.Tx, low, high store.Revision) (n int64, err error) {
	if q.WithoutMachines {
		err = tx.QueryRow(ctx, sql.PastOfMachines, q.arguments(low, high, 0)[:8]...).Scan(&n)
	}
	return n, err
}

// bounds returns the revision to search after, and the last one to search.
func (q Query) bounds(ctx context.Context, tx pgx.Tx) (low, high store.Revision, err error) {
	if q.Only > 0 {
		return q.Only - 1, q.Only, nil
	}
	err = tx.QueryRow(ctx, sql.Bounds, store.NullTime(q.Since), store.NullTime(q.Until)).Scan(&low, &high)
	if q.Before > 0 {
		high = min(high, q.Before-1)
	}
	return low, high, err
}

// scan searches ranges of revisions, from the newest down, until it has found enough. Where no
// index helps they are short, since most searches end among the newest.
func (q Query) scan(ctx context.Context, tx pgx.Tx, low, high store.Revision) (found []PastRevision, next store.Revision, err error) {
	query, stretch := sql.PastRevisions, store.Revision(1000)
	if len(q.Names) > 0 && len(q.Namespaces) > 0 { // there is an index for that
		query, stretch = sql.PastRevisionsOf, high-low
	}
	for end := high; end > low; end -= stretch {
		if high-end >= maxScanned {
			return found, end + 1, nil
		}
		some, err := tx.Query(ctx, query, q.arguments(max(low, end-stretch), end, q.AtMost-len(found))...)
		if err != nil {
			return nil, 0, err
		}
		more, err := pgx.CollectRows(some, func(row pgx.CollectableRow) (r PastRevision, err error) {
			return r, row.Scan(&r.Revision, &r.Author, &r.Application, &r.Message, &r.Time, &r.Size)
		})
		if err != nil {
			return nil, 0, err
		}
		if found = append(found, more...); len(found) == q.AtMost {
			if last := found[len(found)-1].Revision; last > low+1 {
				next = last
			}
			return found, next, nil
		}
	}
	return found, 0, nil
}

func (q Query) arguments(low, high store.Revision, atMost int) []any {
	var of rows.Columns
	for _, k := range q.Kinds {
		of.AddKey(kinds.Key{Kind: k})
	}
	return []any{low, high, q.Author, q.Message, of.Kinds, of.Groups, q.Namespaces, q.Names, atMost, q.WithoutMachines}
}

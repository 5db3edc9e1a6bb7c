package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// HistoryQuery selects revisions that meet all its fields.
type HistoryQuery struct {
	Selection // revisions that changed such resources; labels and Where do not count

	Author       string
	Message      string    // a part of the message
	Since, Until time.Time // of the revisions; zero means no limit
	Only         Revision  // only this one
	Before       Revision  // older than this one; 0 begins with the newest

	AtMost    int // the most revisions to return
	Changes   int // the most changes to return of each
	Documents bool
	MaxSize   int // the most bytes of documents to return
}

// PastRevision is a revision in history.
type PastRevision struct {
	Revision                     Revision
	Author, Application, Message string
	Time                         time.Time
	Size                         int          // how many resources it changed
	Changes                      []PastChange // of selected resources, in the order of their keys
	Omitted                      int          // how many more of these there are
}

// PastChange is what a revision did to one resource. Before and After are set only if documents were
// asked for.
type PastChange struct {
	Key           kinds.Key
	Operation     Operation
	Before, After *Resource
}

// Operation is what a revision, or a diff, does to a resource.
type Operation string

// The operations.
const (
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
)

// maxScanned bounds how many revisions one call searches.
const maxScanned = 100_000

// History returns revisions, the newest first. Next is the revision to continue before; 0 if the search
// reached the oldest. There may be fewer revisions than asked for, or none, and still a next.
func (s *Store) History(ctx context.Context, q HistoryQuery) (found []PastRevision, next Revision, err error) {
	err = s.Reading(ctx, func(tx pgx.Tx) error {
		low, high, err := q.bounds(ctx, tx)
		if err != nil {
			return err
		}
		if found, next, err = q.scan(ctx, tx, low, high); err != nil || len(found) == 0 {
			return err
		}
		return s.addChanges(ctx, tx, q, found)
	})
	return found, next, Explain("reading the history", err)
}

// boundsQuery returns the revisions to search between. Commit times never decrease as revisions increase.
const boundsQuery = `SELECT
	greatest(mesh.oldest_revision() - 1, (SELECT revision FROM mesh.revisions WHERE $1::timestamptz IS NOT NULL AND time < $1 ORDER BY revision DESC LIMIT 1)),
	CASE WHEN $2::timestamptz IS NULL THEN mesh.newest_revision()
		ELSE coalesce((SELECT revision FROM mesh.revisions WHERE time <= $2 ORDER BY revision DESC LIMIT 1), 0) END`

// bounds returns the revision to search after, and the last one to search.
func (q HistoryQuery) bounds(ctx context.Context, tx pgx.Tx) (low, high Revision, err error) {
	if q.Only > 0 {
		return q.Only - 1, q.Only, nil
	}
	err = tx.QueryRow(ctx, boundsQuery, NullTime(q.Since), NullTime(q.Until)).Scan(&low, &high)
	if q.Before > 0 {
		high = min(high, q.Before-1)
	}
	return low, high, err
}

// scan searches ranges of revisions, each larger than the one before, until it has found enough.
func (q HistoryQuery) scan(ctx context.Context, tx pgx.Tx, low, high Revision) (found []PastRevision, next Revision, err error) {
	query, stretch := pastQuery, Revision(1000)
	if len(q.Names) > 0 && len(q.Namespaces) > 0 { // there is an index for that
		query, stretch = pastOfQuery, high-low
	}
	for end := high; end > low; end -= stretch {
		if high-end >= maxScanned {
			return found, end + 1, nil
		}
		rows, err := tx.Query(ctx, query, q.pastArguments(max(low, end-stretch), end, q.AtMost-len(found))...)
		if err != nil {
			return nil, 0, err
		}
		more, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r PastRevision, err error) {
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

const (
	pastRevisions = `SELECT r.revision, r.author, r.application, r.message, r.time, r.size FROM mesh.revisions r
		WHERE r.revision > $1 AND r.revision <= $2 AND ($3 = '' OR r.author = $3) AND ($4 = '' OR strpos(lower(r.message), lower($4)) > 0)`

	// pastChosen is the condition for a selected change.
	pastChosen = `($5::text[] IS NULL OR h.kind = ANY ($5) AND (h.kind, h.api_group) IN (SELECT * FROM unnest($5::text[], $6::text[])))
		AND ($7::text[] IS NULL OR h.namespace = ANY ($7)) AND ($8::text[] IS NULL OR h.name = ANY ($8))`

	pastNewest = ` ORDER BY r.revision DESC LIMIT $9`

	// pastQuery searches revisions for selected changes, and pastOfQuery the changes of selected
	// resources for revisions.
	pastQuery = pastRevisions + ` AND ($5::text[] IS NULL AND $7::text[] IS NULL AND $8::text[] IS NULL
		OR EXISTS (SELECT FROM mesh.history h WHERE h.revision = r.revision AND ` + pastChosen + `))` + pastNewest
	pastOfQuery = pastRevisions + ` AND r.revision IN (SELECT h.revision FROM mesh.history h WHERE ` + pastChosen + `)` + pastNewest
)

func (q HistoryQuery) pastArguments(low, high Revision, atMost int) []any {
	var of columns
	for _, k := range q.Kinds {
		of.addKey(kinds.Key{Kind: k})
	}
	return []any{low, high, q.Author, q.Message, of.kinds, of.groups, q.Namespaces, q.Names, atMost}
}

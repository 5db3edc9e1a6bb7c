package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// HistoryQuery asks for revisions, by what all of its fields say together.
type HistoryQuery struct {
	Selection // revisions that changed such resources; labels and Where do not count

	Author       string
	Message      string    // what the message contains
	Since, Until time.Time // of the revisions; none stands for always
	Only         Revision  // this one alone
	Before       Revision  // older than this one; 0 begins with the newest

	AtMost    int // so many revisions
	Changes   int // so many changes of each
	Documents bool
	MaxSize   int // so many bytes of documents, in all
}

// PastRevision is a revision as the history tells of it.
type PastRevision struct {
	Revision                     Revision
	Author, Application, Message string
	Time                         time.Time
	Size                         int          // how many resources it changed
	Changes                      []PastChange // of resources that were asked for, in the order of their keys
	Omitted                      int          // how many more there are of those
}

// PastChange is what a revision did to a resource. Before and After are only set where documents were asked for.
type PastChange struct {
	Key           kinds.Key
	Operation     Operation
	Before, After *Resource
}

// Operation is what becomes of a resource in a revision, or between two.
type Operation string

// The operations.
const (
	Create Operation = "create"
	Update Operation = "update"
	Delete Operation = "delete"
)

// scanned bounds how many revisions one call looks through for those that are asked for.
const scanned = 100_000

// History reads revisions, the newest first. Next is the revision before which to go on, 0 if there is none: then it has reached the
// oldest. There may be fewer revisions than were asked for, or none, and a next.
func (s *Store) History(ctx context.Context, q HistoryQuery) (found []PastRevision, next Revision, err error) {
	err = s.reading(ctx, func(tx pgx.Tx) error {
		low, high, err := q.bounds(ctx, tx)
		if err != nil {
			return err
		}
		if found, next, err = q.scan(ctx, tx, low, high); err != nil || len(found) == 0 {
			return err
		}
		return s.addChanges(ctx, tx, q, found)
	})
	return found, next, explain("reading the history", err)
}

// boundsQuery tells between which revisions to look. Times never fall as numbers rise.
const boundsQuery = `SELECT
	greatest(mesh.oldest_revision() - 1, (SELECT revision FROM mesh.revisions WHERE $1::timestamptz IS NOT NULL AND time < $1 ORDER BY revision DESC LIMIT 1)),
	CASE WHEN $2::timestamptz IS NULL THEN mesh.newest_revision()
		ELSE coalesce((SELECT revision FROM mesh.revisions WHERE time <= $2 ORDER BY revision DESC LIMIT 1), 0) END`

// bounds are the revision after which to look, and the last to look at.
func (q HistoryQuery) bounds(ctx context.Context, tx pgx.Tx) (low, high Revision, err error) {
	if q.Only > 0 {
		return q.Only - 1, q.Only, nil
	}
	err = tx.QueryRow(ctx, boundsQuery, timeOrNull(q.Since), timeOrNull(q.Until)).Scan(&low, &high)
	if q.Before > 0 {
		high = min(high, q.Before-1)
	}
	return low, high, err
}

// scan looks through stretches of revisions, each longer than the one before, until it has found enough.
func (q HistoryQuery) scan(ctx context.Context, tx pgx.Tx, low, high Revision) (found []PastRevision, next Revision, err error) {
	query, stretch := pastQuery, Revision(1000)
	if len(q.Names) > 0 && len(q.Namespaces) > 0 { // there is an index for that
		query, stretch = pastOfQuery, high-low
	}
	for end := high; end > low; end -= stretch {
		if high-end >= scanned {
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

	// pastChosen is the condition that a change meets which is asked for.
	pastChosen = `($5::text[] IS NULL OR h.kind = ANY ($5) AND (h.kind, h.api_group) IN (SELECT * FROM unnest($5::text[], $6::text[])))
		AND ($7::text[] IS NULL OR h.namespace = ANY ($7)) AND ($8::text[] IS NULL OR h.name = ANY ($8))`

	pastNewest = ` ORDER BY r.revision DESC LIMIT $9`

	// pastQuery looks through revisions for changes, and pastOfQuery through the changes of resources for revisions.
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

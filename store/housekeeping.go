package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Chores is what the servers of a database have to do in it, and when.
type Chores struct {
	Standby  bool          // the database is a hot standby, where nothing can be done
	Oldest   Revision      // that the history has
	Waiting  int64         // revisions that wait for a confirmation
	Deadline time.Duration // until the first of them is to be reverted, by the clock of the database; not above 0 if it is overdue
	// Inserted is how many rows Postgres has counted that were inserted into mesh.resources: a hint, and 0 where it counts none.
	Inserted int64
}

const inserted = "coalesce(pg_stat_get_tuples_inserted('mesh.resources'::regclass), 0)"

// Chores looks what there is to do.
func (s *Store) Chores(ctx context.Context) (Chores, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var c Chores
	var seconds *float64
	err := s.pool.QueryRow(ctx, "SELECT standby, oldest_revision, waiting, seconds_to_deadline, "+inserted+" FROM mesh.chores()").
		Scan(&c.Standby, &c.Oldest, &c.Waiting, &seconds, &c.Inserted)
	if seconds != nil {
		c.Deadline = time.Duration(*seconds * float64(time.Second))
	}
	return c, explain("looking for changes that were not confirmed", err)
}

// Reverted is what came of a revision that nobody confirmed in time.
type Reverted struct {
	Revision Revision
	By       Revision // the revision that took it back; 0 if there was nothing to do, or nothing could be done
	Conflict bool     // some of it was left as it is: the view mesh.conflicts says what and why
}

// RevertOverdue takes back one revision that was not confirmed in time, in a transaction of its own. It returns nil if there is
// none, or if others are at work on those there are.
func (s *Store) RevertOverdue(ctx context.Context) (*Reverted, error) {
	var revision, by *int64
	var state *string
	err := s.chore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT revision, state, reverted_by FROM mesh.revert_overdue()").Scan(&revision, &state, &by)
	})
	if err != nil || revision == nil {
		return nil, explain("reverting a change that was not confirmed", err)
	}
	r := &Reverted{Revision: *revision, Conflict: *state == "conflict"}
	if by != nil {
		r.By = *by
	}
	return r, nil
}

// PruneExpired forgets the oldest of what the settings do not keep, until about so many changes have gone, in a transaction of its
// own. It returns how many revisions went: 0 if there is nothing left to forget.
func (s *Store) PruneExpired(ctx context.Context, changes int) (int64, error) {
	var pruned int64
	err := s.chore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.prune_expired($1)", changes).Scan(&pruned)
	})
	return pruned, explain("pruning the history", err)
}

// chore runs a transaction that would rather be tried again than wait for somebody who keeps rows locked.
func (s *Store) chore(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '2s'"); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

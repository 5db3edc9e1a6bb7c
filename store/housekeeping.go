package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Chores is the housekeeping that servers have to do in the database, and when.
type Chores struct {
	Standby  bool          // the database is a hot standby, where nothing can be done
	Oldest   Revision      // in history
	Waiting  int64         // revisions that wait for a confirmation
	Deadline time.Duration // until the first of them is reverted, by the database's clock; 0 or less if overdue
	// Inserted is how many rows Postgres has counted that were inserted into mesh.resources: a hint, and 0 where it counts none.
	Inserted int64
}

const inserted = "coalesce(pg_stat_get_tuples_inserted('mesh.resources'::regclass), 0)"

// Chores returns what there is to do.
func (s *Store) Chores(ctx context.Context) (Chores, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	var c Chores
	var seconds *float64
	err := s.pool.QueryRow(ctx, "SELECT standby, oldest_revision, waiting, seconds_to_deadline, "+inserted+" FROM mesh.chores()").
		Scan(&c.Standby, &c.Oldest, &c.Waiting, &seconds, &c.Inserted)
	if seconds != nil {
		c.Deadline = time.Duration(*seconds * float64(time.Second))
	}
	return c, Explain("looking for changes that were not confirmed", err)
}

// Reverted is what happened to a revision that was not confirmed in time.
type Reverted struct {
	Revision Revision
	By       Revision // the revision that reverted it; 0 if nothing had to be or could be reverted
	Conflict bool     // part of it could not be reverted: see mesh.conflicts
}

// RevertOverdue reverts one revision that was not confirmed in time, in a transaction of its own. It
// returns nil if there is none, or if others are working on them.
func (s *Store) RevertOverdue(ctx context.Context) (*Reverted, error) {
	var revision, by *int64
	var state *string
	err := s.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT revision, state, reverted_by FROM mesh.revert_overdue()").Scan(&revision, &state, &by)
	})
	if err != nil || revision == nil {
		return nil, Explain("reverting a change that was not confirmed", err)
	}
	r := &Reverted{Revision: *revision, Conflict: *state == "conflict"}
	if by != nil {
		r.By = *by
	}
	return r, nil
}

// PruneExpired prunes the oldest history beyond the retention settings, about so many changes, in a
// transaction of its own. It returns how many revisions went; 0 if none are left to prune.
func (s *Store) PruneExpired(ctx context.Context, changes int) (int64, error) {
	var pruned int64
	err := s.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.prune_expired($1)", changes).Scan(&pruned)
	})
	return pruned, Explain("pruning the history", err)
}

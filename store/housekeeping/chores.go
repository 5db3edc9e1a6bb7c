package housekeeping

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Chores is the housekeeping that servers have to do in the database, and when.
type Chores struct {
	Standby  bool           // the database is a hot standby, where nothing can be done
	Oldest   store.Revision // in history
	Waiting  int64          // revisions that wait for a confirmation
	Deadline time.Duration  // until the first of them is reverted, by the database's clock; 0 or less if overdue
	// Inserted is how many rows Postgres has counted that were inserted into mesh.resources: a
	// hint, and 0 where it counts none.
	Inserted int64
}

// Chores returns what there is to do.
func (s *Store) Chores(ctx context.Context) (Chores, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	var c Chores
	var seconds *float64
	err := s.db.Pool().QueryRow(ctx, sql.Chores).
		Scan(&c.Standby, &c.Oldest, &c.Waiting, &seconds, &c.Inserted)
	if seconds != nil {
		c.Deadline = time.Duration(*seconds * float64(time.Second))
	}
	return c, store.Explain("looking for changes that were not confirmed", err)
}

// Reverted is what happened to a revision that was not confirmed in time.
type Reverted struct {
	Revision store.Revision
	By       store.Revision // the revision that reverted it; 0 if nothing had to be or could be reverted
	Conflict bool           // part of it could not be reverted: see mesh.conflicts
}

// RevertOverdue reverts one revision that was not confirmed in time, in a transaction of its own.
// It returns nil if there is none, or if others are working on them.
func (s *Store) RevertOverdue(ctx context.Context) (*Reverted, error) {
	var revision, by *int64
	var state *string
	err := s.db.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.RevertOverdue).Scan(&revision, &state, &by)
	})
	if err != nil || revision == nil {
		return nil, store.Explain("reverting a change that was not confirmed", err)
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
	err := s.db.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.PruneExpired, changes).Scan(&pruned)
	})
	return pruned, store.Explain("pruning the history", err)
}

package rollout

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

// Overdue returns for how long there has been a revision after this one, and so for how long who
// runs this one could have run another; 0 if it is the newest.
func (s *Store) Overdue(ctx context.Context, revision int64) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	var seconds float64
	err := s.db.Pool().QueryRow(ctx, sql.Overdue, revision).Scan(&seconds)
	return time.Duration(seconds * float64(time.Second)), store.Explain("reading since when there is a newer revision", err)
}

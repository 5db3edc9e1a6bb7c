package trust

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// trustServerTimeout is how long a server that reads the trust may be silent before it counts as
// gone: a few times [Beat].
const trustServerTimeout = 15 * time.Second

// Beat is how often a server publishes when it last read the trust, if nothing changes.
const Beat = 4 * time.Second

// NoteTrust stores when a server last read the trust. A zero time says that the server stops.
func (s *Store) NoteTrust(ctx context.Context, server, name string, readAt time.Time) error {
	var at *time.Time
	if !readAt.IsZero() {
		at = &readAt
	}
	_, err := s.db.TrustPool().Exec(ctx, sql.NoteTrust, server, name, at)
	return store.Explain("noting what a server trusts", err)
}

// Now returns the time by the database's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.db.TrustPool().QueryRow(ctx, sql.Now).Scan(&now)
	return now, store.Explain("asking the database for its time", err)
}

// TrustLags lists the running servers, except one, that have not read the trust since a time.
func (s *Store) TrustLags(ctx context.Context, at time.Time, but string) ([]string, error) {
	rows, err := s.db.TrustPool().Query(ctx, sql.TrustLags, at, trustServerTimeout, but)
	if err != nil {
		return nil, store.Explain("asking which servers know of it", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, store.Explain("asking which servers know of it", err)
}

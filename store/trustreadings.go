package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// trustServerTimeout is how long a server that reads the trust may be silent before it counts as gone: a
// few times [TrustBeat].
const trustServerTimeout = 15 * time.Second

// TrustBeat is how often a server publishes when it last read the trust, if nothing changes.
const TrustBeat = 4 * time.Second

// NoteTrust stores when a server last read the trust. A zero time says that the server stops.
func (s *Store) NoteTrust(ctx context.Context, server, name string, readAt time.Time) error {
	var at *time.Time
	if !readAt.IsZero() {
		at = &readAt
	}
	_, err := s.trust.Exec(ctx, "SELECT mesh.note_trust($1, $2, $3)", server, name, at)
	return Explain("noting what a server trusts", err)
}

// Now returns the time by the database's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.trust.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now, Explain("asking the database for its time", err)
}

// TrustLags lists the running servers, except one, that have not read the trust since a time.
func (s *Store) TrustLags(ctx context.Context, at time.Time, but string) ([]string, error) {
	rows, err := s.trust.Query(ctx, `SELECT DISTINCT name FROM mesh.trust_readings
		WHERE read_at < $1 AND noted_at > clock_timestamp() - $2::interval AND server <> $3 ORDER BY name`, at, trustServerTimeout, but)
	if err != nil {
		return nil, Explain("asking which servers know of it", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, Explain("asking which servers know of it", err)
}

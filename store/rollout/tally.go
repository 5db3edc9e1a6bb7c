package rollout

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Tally is how many proxies of a namespace are in a state, and were sent and run these revisions.
type Tally struct {
	Namespace, State string
	Sent, Runs       int64 // 0 for none yet
	Count            int
}

// Tally counts the proxies of all namespaces. Proxies in step are one row of a namespace, so that
// it is cheap to ask again and again.
func (s *Store) Tally(ctx context.Context) ([]Tally, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Tally)
	if err != nil {
		return nil, store.Explain("counting proxies", err)
	}
	tallies, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Tally])
	return tallies, store.Explain("counting proxies", err)
}

// Behind is a connected proxy that does not run a revision.
type Behind struct {
	Namespace, Proxy, State string
	Sent, Runs              int64
	Refused                 uint32
	Reason                  string // what it refuses and why, in a sentence; empty if it does not or nobody knows
}

// Behind lists up to so many connected proxies that do not run a revision, those that refuse
// something first, of those that the reader may know of.
func (s *Store) Behind(ctx context.Context, may []string, revision int64, most int) ([]Behind, error) {
	return read(ctx, s, may, "reading which proxies are behind", pgx.RowToStructByPos[Behind], sql.Behind, revision, may, most)
}

// Newest is the newest revision of the mesh, which proxies may be waited for to run.
func (s *Store) Newest(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Pool().QueryRow(ctx, sql.Newest).Scan(&revision)
	return revision, store.Explain("reading the newest revision", err)
}

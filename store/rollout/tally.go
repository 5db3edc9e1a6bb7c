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

// Behind lists up to so many connected proxies that do not run a revision, those that refuse
// something first. Namespaces that are nil are all.
func (s *Store) Behind(ctx context.Context, revision int64, namespaces []string, most int) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Behind, revision, namespaces, most)
	if err != nil {
		return nil, store.Explain("reading which proxies are behind", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Listed, err error) {
		err = row.Scan(&p.Namespace, &p.Proxy, &p.State, &p.Sent, &p.Runs, &p.Refused)
		return p, err
	})
	return list, store.Explain("reading which proxies are behind", err)
}

// Newest is the newest revision of the mesh, which proxies may be waited for to run.
func (s *Store) Newest(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Pool().QueryRow(ctx, sql.Newest).Scan(&revision)
	return revision, store.Explain("reading the newest revision", err)
}

package callers

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Reader is a row of mesh.readers: what clients with an identity are shown.
type Reader struct {
	Identity   string
	Namespaces []string // {*} means all
	Kinds      []string // {*} means all
	Labels     string
}

// Readers returns the rows of mesh.readers.
func (s *Store) Readers(ctx context.Context) ([]Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.TrustPool().Query(ctx, sql.Readers)
	if err != nil {
		return nil, store.Explain("reading what readers are shown", err)
	}
	readers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Reader, err error) {
		err = row.Scan(&r.Identity, &r.Namespaces, &r.Kinds, &r.Labels)
		return r, err
	})
	return readers, store.Explain("reading what readers are shown", err)
}

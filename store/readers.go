package store

import (
	"context"

	"github.com/jackc/pgx/v5"
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
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.trust.Query(ctx, "SELECT identity, namespaces, kinds, labels FROM mesh.readers ORDER BY id")
	if err != nil {
		return nil, Explain("reading what readers are shown", err)
	}
	readers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Reader, err error) {
		err = row.Scan(&r.Identity, &r.Namespaces, &r.Kinds, &r.Labels)
		return r, err
	})
	return readers, Explain("reading what readers are shown", err)
}

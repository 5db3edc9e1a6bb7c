package secrets

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// SealingKey is the stored form of a key that servers encrypt secrets with. It is not secret.
type SealingKey struct {
	ID      string
	Wrapped string
}

// SealingKeys returns the stored keys, the oldest first.
func (s *Store) SealingKeys(ctx context.Context) ([]SealingKey, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.SealingKeys)
	if err != nil {
		return nil, store.Explain("reading the keys that encrypt secrets", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SealingKey])
	return keys, store.Explain("reading the keys that encrypt secrets", err)
}

// AddSealingKey stores a key if there still are as many as known, and reports whether it did.
func (s *Store) AddSealingKey(ctx context.Context, k SealingKey, known int) (added bool, err error) {
	err = s.db.Pool().QueryRow(ctx, sql.AddSealingKey, k.ID, k.Wrapped, known).Scan(&added)
	return added, store.Explain("keeping a key that encrypts secrets", err)
}

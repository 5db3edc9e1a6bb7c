package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// SealingKey is the stored form of a key that servers encrypt secrets with. It is not secret.
type SealingKey struct {
	ID      string
	Wrapped string
}

// SealingKeys returns the stored keys, the oldest first.
func (s *Store) SealingKeys(ctx context.Context) ([]SealingKey, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT id, wrapped FROM mesh.sealing_keys ORDER BY created_at, id COLLATE "C"`)
	if err != nil {
		return nil, Explain("reading the keys that encrypt secrets", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SealingKey])
	return keys, Explain("reading the keys that encrypt secrets", err)
}

// AddSealingKey stores a key if there still are as many as known, and reports whether it did.
func (s *Store) AddSealingKey(ctx context.Context, k SealingKey, known int) (added bool, err error) {
	err = s.pool.QueryRow(ctx, "SELECT mesh.add_sealing_key($1, $2, $3)", k.ID, k.Wrapped, known).Scan(&added)
	return added, Explain("keeping a key that encrypts secrets", err)
}

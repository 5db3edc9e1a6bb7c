package store

import (
	"context"
	"fmt"

	"github.com/pgmesh/pgmesh/store/migrations"
)

// Fits returns an error unless a program that knows the schema up to newest can use version have,
// which must be at least least.
func Fits(have, least, newest int64) error {
	switch {
	case have > newest:
		return fmt.Errorf("%w: it has version %d and this program knows up to %d: run a newer program", ErrSchema, have, newest)
	case have < least:
		return fmt.Errorf("%w: it has version %d and this program needs %d: run mcp-server migrate up", ErrSchema, have, least)
	}
	return nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	var have int64
	err := s.pool.QueryRow(ctx, sql.SchemaVersion).Scan(&have)
	if err != nil {
		return Explain("reading the version of the schema", err)
	}
	newest, err := migrations.Newest()
	if err != nil {
		return err
	}
	return Fits(have, newest, newest)
}

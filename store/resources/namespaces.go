package resources

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Namespaces lists the namespaces that have resources or secrets, or that grants name.
func (s *Store) Namespaces(ctx context.Context) ([]string, error) {
	rows, err := s.db.Pool().Query(ctx, sql.Namespaces)
	if err != nil {
		return nil, store.Explain("listing the namespaces", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, store.Explain("listing the namespaces", err)
}

package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Difference is an object of the schema that is not as a migration made it: a row of
// mesh.check_installation.
type Difference struct{ Kind, Name, Difference, Advice string }

// Differences lists what somebody else than a migration has changed in the schema.
func (s *Store) Differences(ctx context.Context) ([]Difference, error) {
	rows, err := s.pool.Query(ctx, sql.Differences)
	if err == nil {
		var list []Difference
		if list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Difference]); err == nil {
			return list, nil
		}
	}
	return nil, Explain("looking what others have changed in the schema", err)
}

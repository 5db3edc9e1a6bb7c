package registries

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// Status is what became of an entry in a version.
type Status struct {
	Mirrored

	Conditions []rollout.Condition
	// Own is the status of a resource of the Gateway API in that API's own shape, as JSON; nil if it is
	// not known, and of other kinds.
	Own json.RawMessage
}

// Statuses lists what became of the configuration of a registry, also of what another origin hides.
func (s *Store) Statuses(ctx context.Context, registry string) ([]Status, error) {
	const doing = "reading what became of a registry's configuration"
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Statuses, registry)
	if err != nil {
		return nil, store.Explain(doing, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Status, err error) {
		err = row.Scan(&r.Kind, &r.Group, &r.Namespace, &r.Name, &r.Version, &r.Conditions, &r.Own)
		return r, err
	})
	return list, store.Explain(doing, err)
}

// Moves counts what may change statuses: revisions, and messages of reports. It costs next to nothing,
// for it is asked again and again.
func (s *Store) Moves(ctx context.Context) (moves int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Pool().QueryRow(ctx, sql.Moves).Scan(&moves)
	return moves, store.Explain("asking whether statuses may have changed", err)
}

package resources

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Called is the result of a Call. Its outcomes are of the keys.
type Called struct {
	Applied
	Keys []kinds.Key
}

// Call runs a function of the database that changes resources and returns which: operation and key.
// If refuse, unless nil, returns an error for one of these, all is rolled back. Only the Apply's
// origin and options count.
func (s *Store) Call(ctx context.Context, a Apply, refuse func(rows.Key) error, function string, args ...any) (done Called, err error) {
	outcomes := []Outcome{}
	done.Applied, err = s.Transact(ctx, a, func(tx pgx.Tx) error {
		changed, err := tx.Query(ctx, function, args...)
		if err != nil {
			return err
		}
		var operation store.Operation
		var k rows.Key
		_, err = pgx.ForEachRow(changed, append([]any{&operation}, k.Targets()...), func() error {
			if refuse != nil {
				if err := refuse(k); err != nil {
					return err
				}
			}
			if known, ok := k.Known(s.db, 0); ok {
				done.Keys, outcomes = append(done.Keys, known), append(outcomes, calledAs[operation])
			}
			return nil
		})
		return err
	})
	done.Outcomes = outcomes
	return done, err
}

var calledAs = map[store.Operation]Outcome{store.Create: Created, store.Update: Configured, store.Delete: Deleted}

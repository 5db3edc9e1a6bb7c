package rollout

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// read asks a query on behalf of somebody who may know of these namespaces only; of all if they are
// nil.
func read[T any](ctx context.Context, s *Store, may []string, doing string, scan pgx.RowToFunc[T], query string, args ...any) (list []T, err error) {
	err = s.reading(ctx, may, func(ctx context.Context, tx pgx.Tx) error {
		list, err = ask(ctx, tx, scan, query, args...)
		return err
	})
	return list, store.Explain(doing, err)
}

// reading begins a transaction that sees one moment.
func (s *Store) reading(ctx context.Context, may []string, do func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	return pgx.BeginTxFunc(ctx, s.db.Pool(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.ReadFor, setting(may)); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

func ask[T any](ctx context.Context, tx pgx.Tx, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// setting is the value of mesh.reading, which is empty for all namespaces.
func setting(may []string) string {
	if may != nil && len(may) == 0 {
		return ","
	}
	return strings.Join(may, ",")
}

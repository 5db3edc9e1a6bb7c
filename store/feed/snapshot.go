package feed

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// Snapshot calls each with every resource as of one revision, in no particular order, and returns
// the position to Follow from. It streams the resources. It returns the first error of each.
func (f *Feed) Snapshot(ctx context.Context, each func(*store.Resource) error) (Position, error) {
	return f.SnapshotWithSecrets(ctx, each, nil)
}

// SnapshotWithSecrets also calls secret with every secret as of the same revision.
func (f *Feed) SnapshotWithSecrets(ctx context.Context, each func(*store.Resource) error, secret func(*secrets.Secret) error) (Position, error) {
	var at Position
	conn, err := f.connect(ctx)
	if err == nil {
		defer store.CloseConn(conn)
		at, err = f.snapshot(ctx, conn, each, secret)
	}
	if err != nil {
		return Position{}, store.Explain("reading a snapshot of the resources", err)
	}
	return at, nil
}

func (f *Feed) snapshot(ctx context.Context, conn *pgx.Conn, each func(*store.Resource) error, secret func(*secrets.Secret) error) (at Position, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, sql.Newest).Scan(&at.Revision, &at.Mark)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		unchecked, err := readUnchecked(ctx, tx)
		if err != nil {
			return err
		}
		found, err := tx.Query(ctx, sql.Snapshot)
		if err != nil {
			return err
		}
		err = rows.EachResource(f.db, found, func(r *store.Resource) error {
			r.Unchecked = unchecked[rows.KeyOf(r.Key)]
			return each(r)
		})
		if err != nil || secret == nil {
			return err
		}
		return eachSecret(ctx, tx, secret)
	})
	return at, err
}

// readUnchecked lists resources that the current rules did not check. There are hardly ever any.
func readUnchecked(ctx context.Context, tx pgx.Tx) (map[rows.Key]bool, error) {
	found, err := tx.Query(ctx, sql.Unchecked)
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (k rows.Key, err error) {
		return k, row.Scan(k.Targets()...)
	})
	unchecked := make(map[rows.Key]bool, len(keys))
	for _, k := range keys {
		unchecked[k] = true
	}
	return unchecked, err
}

// eachSecret calls a function with all secrets that a transaction sees.
func eachSecret(ctx context.Context, tx pgx.Tx, each func(*secrets.Secret) error) error {
	all, err := secrets.All(ctx, tx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := each(s); err != nil {
			return store.OfCaller(err)
		}
	}
	return nil
}

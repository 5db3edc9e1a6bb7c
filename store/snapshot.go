package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// resourceRows are the current resources, each with the revision that changed it last; 0 for a resource
// that came around the triggers.
const resourceRows = `(SELECT r.*, coalesce(t.revision, 0) AS revision
	FROM mesh.resources r LEFT JOIN mesh.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at)`

// bodyColumns are their columns that a body is scanned from.
const bodyColumns = "spec, labels, annotations, revision, generation, created_at, updated_at"

// Snapshot calls each with every resource as of one revision, in no particular order, and returns the
// position to Follow from. It streams the resources. It returns the first error of each.
func (s *Store) Snapshot(ctx context.Context, each func(*Resource) error) (Position, error) {
	return s.SnapshotWithSecrets(ctx, each, nil)
}

// SnapshotWithSecrets also calls secret with every secret as of the same revision.
func (s *Store) SnapshotWithSecrets(ctx context.Context, each func(*Resource) error, secret func(*Secret) error) (Position, error) {
	var at Position
	conn, err := s.connectFeed(ctx)
	if err == nil {
		defer CloseConn(conn)
		at, err = s.snapshot(ctx, conn, each, secret)
	}
	if err != nil {
		return Position{}, Explain("reading a snapshot of the resources", err)
	}
	return at, nil
}

func (s *Store) snapshot(ctx context.Context, conn *pgx.Conn, each func(*Resource) error, secret func(*Secret) error) (at Position, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, newestQuery).Scan(&at.Revision, &at.Mark)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		unchecked, err := readUnchecked(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT api_group, kind, namespace, name, "+bodyColumns+" FROM "+resourceRows+" r")
		if err != nil {
			return err
		}
		err = s.eachResource(rows, func(r *Resource) error {
			r.Unchecked = unchecked[keyOf(r.Key)]
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
func readUnchecked(ctx context.Context, tx pgx.Tx) (map[key]bool, error) {
	rows, err := tx.Query(ctx, `SELECT r.api_group, r.kind, r.namespace, r.name FROM mesh.resources r
		WHERE r.rules < (SELECT mesh.current_rules()) OR r.rules > (SELECT mesh.current_rules())`)
	if err != nil {
		return nil, err
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k key, err error) {
		return k, row.Scan(&k.group, &k.kind, &k.namespace, &k.name)
	})
	unchecked := make(map[key]bool, len(keys))
	for _, k := range keys {
		unchecked[k] = true
	}
	return unchecked, err
}

func (s *Store) eachResource(rows pgx.Rows, each func(*Resource) error) error {
	defer rows.Close()
	for rows.Next() {
		var k key
		var b body
		if err := rows.Scan(append([]any{&k.group, &k.kind, &k.namespace, &k.name}, b.targets()...)...); err != nil {
			return err
		}
		known, ok := s.resolve(k, orZero(b.revision))
		if !ok {
			continue
		}
		r, err := b.resource(known)
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return OfCaller(err)
		}
	}
	return rows.Err()
}

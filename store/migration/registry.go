package migration

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store/kindtables"
)

// syncRegistry replaces the kinds in the database by this program's, if they differ.
func syncRegistry(ctx context.Context, conn *pgx.Conn) error {
	known := kindtables.Known()
	digest, err := known.Digest()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		changed, err := tx.Exec(ctx, sql.SetRegistryDigest, digest)
		if err != nil || changed.RowsAffected() == 0 {
			return err
		}
		if err := known.NumberRules(); err != nil {
			return err
		}
		return known.Write(ctx, tx)
	})
	return explain("writing the kinds to the database", err)
}

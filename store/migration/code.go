package migration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/jackc/pgx/v5"

	code "github.com/pgmesh/pgmesh/store/sql"
)

func digestOf(script string) string {
	sum := sha256.Sum256([]byte(script))
	return hex.EncodeToString(sum[:])
}

// syncCode installs the code of this program.
func syncCode(ctx context.Context, conn *pgx.Conn) error {
	script, err := code.Script()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockEverything(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sql.SetCodeDigest, digestOf(script)); err != nil {
			return err
		}
		// The files are in order for views. Bodies of functions may use what comes later.
		_, err = tx.Exec(ctx, "SET LOCAL check_function_bodies = off;\n"+script+"\n"+sql.UnblockWrites)
		return err
	})
	return explain("installing the functions and views of the schema", err)
}

// dropCode removes the code before the tables become those of an older program. Nobody can write
// until that program has installed its own.
func dropCode(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockEverything(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql.BlockWrites+"\n"+sql.DropCode)
		return err
	})
	return explain("removing the functions and views of the schema", err)
}

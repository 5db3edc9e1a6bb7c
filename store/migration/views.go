package migration

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// installViews creates the views whose columns are fields of kinds, unless they fit the database's
// code and registry.
func installViews(ctx context.Context, conn *pgx.Conn, _ *goose.Provider, tell func(string)) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var fit bool
		err := tx.QueryRow(ctx, sql.ViewsFit).Scan(&fit)
		if err != nil || fit {
			return err
		}
		if err := lockEverything(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sql.InstallViews)
		tell("made the views of the kinds")
		return err
	})
	return explain("making the views of the kinds", err)
}

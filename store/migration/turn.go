package migration

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Programs that migrate take turns with an advisory lock, because there may be no table yet.
// Whoever may connect can take that lock and keep it. So a program waits for it only while its
// holder could migrate; otherwise programs take turns in the order in which they connected.

// turnPollInterval is how often a waiting program checks whether it is its turn.
const turnPollInterval = 50 * time.Millisecond

// takeTurn waits until no other program migrates, and makes others wait until the connection ends.
func takeTurn(ctx context.Context, conn *pgx.Conn, tell func(string)) error {
	told := ""
	for {
		mine, before, err := turn(ctx, conn, tell)
		if err != nil || mine {
			return err
		}
		if before != told && before != "" {
			told = before
			tell("waiting for " + before + ", which migrates")
		}
		if !wait.For(ctx, turnPollInterval) {
			return ctx.Err()
		}
	}
}

// turn reports whether it is this program's turn, or else whose.
func turn(ctx context.Context, conn *pgx.Conn, tell func(string)) (mine bool, before string, err error) {
	if err := conn.QueryRow(ctx, sql.TryMigrationLock).Scan(&mine); err != nil || mine {
		return mine, "", err
	}
	var strangers string
	err = conn.QueryRow(ctx, sql.MigrationHolders).Scan(&before, &strangers)
	if err != nil || before != "" || strangers == "" { // the lock is free by now: try again
		return false, before, err
	}
	if err := conn.QueryRow(ctx, sql.MigratesBefore).Scan(&before); err != nil || before != "" {
		return false, before, err
	}
	tell(strangers + " holds the lock of those that migrate, and could not: going on without it")
	return true, "", nil
}

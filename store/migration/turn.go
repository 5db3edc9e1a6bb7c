package migration

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Programs that migrate take turns with an advisory lock, because there may be no table yet.
// Whoever may connect can take that lock and keep it. So a program waits for it only while its
// holder could migrate; otherwise programs take turns in the order in which they connected.
//
// Others see a session only some time after it has connected. So a session that takes its turn says
// so by its name, and looks once more: of several that do so at once, the last one sees the others.

// turnPollInterval is how often a waiting program checks whether it is its turn.
const turnPollInterval = 50 * time.Millisecond

// The names of a session (application_name) that waits for its turn, of one whose turn it is, and of one
// whose turn is over.
const (
	waits    = "pgmesh migrate"
	migrates = "pgmesh migrates"
	migrated = "pgmesh migrated"
)

// takeTurn waits until no other program migrates, and makes others wait until endTurn, or until the
// connection ends.
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

// endTurn lets others migrate. The end of the connection does it too, but Postgres notices that only some
// time later, and the next command would wait for this one. A lost connection has ended the turn.
func endTurn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // also when the caller's time is over
	defer cancel()
	_ = call(ctx, conn, migrated)
	_, _ = conn.Exec(ctx, sql.FreeMigrationLock)
}

// turn reports whether it is this program's turn, or else whose.
func turn(ctx context.Context, conn *pgx.Conn, tell func(string)) (mine bool, before string, err error) {
	var locked bool
	if err := conn.QueryRow(ctx, sql.TryMigrationLock).Scan(&locked); err != nil {
		return false, "", err
	}
	var strangers string
	if !locked {
		err = conn.QueryRow(ctx, sql.MigrationHolders).Scan(&before, &strangers)
		if err != nil || before != "" || strangers == "" { // the lock is free by now: try again
			return false, before, errors.Join(err, call(ctx, conn, waits))
		}
	}
	if before, err = claim(ctx, conn, locked); err != nil || before != "" {
		return false, before, err
	}
	if !locked {
		tell(strangers + " holds the lock of those that migrate, and could not: going on without it")
	}
	return true, "", nil
}

// claim makes it this program's turn. If it is another's, claim returns whose. Without the lock, programs
// that connected earlier come first.
func claim(ctx context.Context, conn *pgx.Conn, locked bool) (before string, err error) {
	if !locked {
		if err := conn.QueryRow(ctx, sql.WaitsBefore, waits, migrates).Scan(&before); err != nil || before != "" {
			return before, errors.Join(err, call(ctx, conn, waits))
		}
	}
	if err := call(ctx, conn, migrates); err != nil {
		return "", err
	}
	var connected bool
	err = conn.QueryRow(ctx, sql.Migrates, migrates).Scan(&before, &connected)
	if err == nil && before != "" && connected {
		err = call(ctx, conn, waits)
	}
	return before, err
}

// call gives the session a name, which all see.
func call(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, sql.CallSession, name)
	return err
}

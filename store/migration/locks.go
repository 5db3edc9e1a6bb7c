package migration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/store"
)

// A migration needs the tables for itself for a moment while a mesh uses them. It may have to wait
// for a transaction that holds one, and everybody else then waits behind it. So it asks for all
// tables at once, waits for less time than Postgres takes to look for deadlocks, lets the others go
// on for a while, and tries again.

// lockEverything locks the tables and views of the schema until the transaction ends. Some
// transactions lock resources first and others a view, and may deadlock with this one; so its order
// is random each time.
func lockEverything(ctx context.Context, tx pgx.Tx) error {
	var list string
	err := tx.QueryRow(ctx, sql.Relations, rand.N(2) == 0).Scan(&list)
	if err != nil {
		return err
	}
	// A long wait succeeds against long transactions, and a short one ends deadlocks early; so the
	// length is random.
	wait := minLockWait + rand.N(maxLockWait-minLockWait)
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = "+store.Milliseconds(wait)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE "+list+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "SET LOCAL statement_timeout TO DEFAULT")
	return err
}

const (
	minLockWait = 50 * time.Millisecond
	maxLockWait = 700 * time.Millisecond // Postgres looks for deadlocks after a second, and may then abort another's transaction

	minRetryPause = 50 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// retryLocked repeats do until no lock is in its way, and reports when it waits.
func retryLocked(ctx context.Context, conn *pgx.Conn, tell func(string), do func() error) error {
	for {
		begun := time.Now()
		err := do()
		if !isLockTimeout(err) {
			return err
		}
		pause := min(max(minRetryPause, 2*time.Since(begun)), maxRetryPause)
		tell("waiting for others who use the tables: " + lockHolders(ctx, conn))
		// The random part keeps two programs that wait for each other from retrying in step.
		if !wait.For(ctx, pause+rand.N(pause)) {
			return ctx.Err()
		}
	}
}

// isLockTimeout reports whether a lock could not be had in time.
func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, store.ErrConflict) || errors.As(err, new(*store.BlockedError)) || errors.As(err, &pg) && (pg.Code == store.CodeNoLock || pg.Code == "57014")
}

// lockHolders describes the sessions that hold locks on the tables, the oldest first.
func lockHolders(ctx context.Context, conn *pgx.Conn) string {
	var names string
	err := conn.QueryRow(ctx, sql.RelationHolders).Scan(&names)
	if err != nil {
		return fmt.Sprint("asking who it is failed: ", err)
	}
	return names
}

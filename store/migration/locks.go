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

// A migration needs the tables for itself for a moment while a mesh uses them. lockEverything in
// queries/locks.sql does that without anybody's harm. What else needs a lock is tried again.

// lockEverything locks the tables and views of the mesh until the transaction ends. It must be the
// first statement of the transaction: while it waits, it must hold nothing that others wait for.
func lockEverything(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, sql.LockEverything)
	return err
}

// codeGivenBack is of the warning that says what the owner of the schema was given back.
const codeGivenBack = "MS098"

// reportNotices reports for whom lockEverything waits, and what the owner was given back.
func reportNotices(tell func(string)) pgconn.NoticeHandler {
	return func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == store.CodeNoLock || n.Code == codeGivenBack {
			tell(n.Message)
		}
	}
}

const (
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

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// A migration needs the tables for itself for a moment while a mesh uses them. It may have to wait for a
// transaction that holds one, and everybody else then waits behind it. So it asks for all tables at once,
// waits for less time than Postgres takes to look for deadlocks, lets the others go on for a while, and
// tries again.

// lockEverything locks the tables and views of the schema until the transaction ends. Some transactions
// lock resources first and others a view, and may deadlock with this one; so its order is random each
// time.
func lockEverything(ctx context.Context, tx pgx.Tx) error {
	var list string
	err := tx.QueryRow(ctx, `SELECT string_agg(format('mesh.%I', relname), ', ' ORDER BY (relname = 'resources') = $1, (relkind = 'v') = $1, oid)
		FROM pg_catalog.pg_class WHERE relnamespace = 'mesh'::regnamespace AND relkind IN ('r', 'v')`, rand.N(2) == 0).Scan(&list)
	if err != nil {
		return err
	}
	// A long wait succeeds against long transactions, and a short one ends deadlocks early; so the length
	// is random.
	wait := minLockWait + rand.N(maxLockWait-minLockWait)
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = "+milliseconds(wait)); err != nil {
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

// milliseconds formats a duration for a Postgres setting.
func milliseconds(d time.Duration) string { return fmt.Sprintf("'%dms'", d.Milliseconds()) }

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
	return errors.Is(err, ErrConflict) || errors.As(err, new(*BlockedError)) || errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "57014")
}

// lockHolders describes the sessions that hold locks on the tables, the oldest first.
func lockHolders(ctx context.Context, conn *pgx.Conn) string {
	var names string
	err := conn.QueryRow(ctx, `
		SELECT coalesce(string_agg(format('%s (pid %s, for %s s)', coalesce(nullif(application_name, ''), 'a session'), pid,
			round(extract(epoch FROM clock_timestamp() - xact_start))), ', ' ORDER BY xact_start), 'nobody now')
		FROM (SELECT DISTINCT a.* FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_locks l USING (pid)
			JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relnamespace = 'mesh'::regnamespace AND c.relkind IN ('r', 'v')
			WHERE l.granted AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
				AND pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 5) a`).Scan(&names)
	if err != nil {
		return fmt.Sprint("asking who it is failed: ", err)
	}
	return names
}

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/internal/wait"
)

// A migration needs the tables for itself for a moment, while a mesh uses them. It may have to wait for whoever has them in a
// transaction, and everybody else would then wait behind it. So it asks for all of them at once, waits for less time than it takes
// Postgres to look for deadlocks, lets the others go on for a while, and asks again.

// lockEverything takes the tables and views of the schema until the transaction ends. Whoever has one already and waits for another
// stands in the way. Some transactions begin with the resources and others with a view, so the order is another each time.
func lockEverything(ctx context.Context, tx pgx.Tx) error {
	var list string
	err := tx.QueryRow(ctx, `SELECT string_agg(format('mesh.%I', relname), ', ' ORDER BY (relname = 'resources') = $1, (relkind = 'v') = $1, oid)
		FROM pg_catalog.pg_class WHERE relnamespace = 'mesh'::regnamespace AND relkind IN ('r', 'v')`, rand.N(2) == 0).Scan(&list)
	if err != nil {
		return err
	}
	// A long wait is for those who have a table for long, and a short one is over soon where somebody waits for us in turn.
	wait := shortestWait + rand.N(longestWait-shortestWait)
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
	shortestWait = 50 * time.Millisecond
	longestWait  = 700 * time.Millisecond // Postgres looks for deadlocks after a second, and may then end the transaction of somebody else

	shortestPause = 50 * time.Millisecond
	longestPause  = 2 * time.Second
)

// milliseconds is a time for a setting of Postgres.
func milliseconds(d time.Duration) string { return fmt.Sprintf("'%dms'", d.Milliseconds()) }

// patiently does something again until nobody has a lock in its way. It says so when it waits.
func patiently(ctx context.Context, conn *pgx.Conn, tell func(string), do func() error) error {
	for {
		begun := time.Now()
		err := do()
		if !lockedOut(err) {
			return err
		}
		pause := min(max(shortestPause, 2*time.Since(begun)), longestPause)
		tell("waiting for others who use the tables: " + others(ctx, conn))
		// Two that wait for each other must not try in step.
		if !wait.For(ctx, pause+rand.N(pause)) {
			return ctx.Err()
		}
	}
}

// lockedOut tells whether a lock was not to be had in time.
func lockedOut(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, ErrConflict) || errors.As(err, new(*BlockedError)) || errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "57014")
}

// others names who may be in the way, the oldest first.
func others(ctx context.Context, conn *pgx.Conn) string {
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

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Programs that migrate take turns with an advisory lock, because there may be no table yet. Whoever may
// connect can take that lock and keep it. So a program waits for it only while its holder could migrate;
// otherwise programs take turns in the order in which they connected.

// migrationLock is "mesh" in ASCII, and number two of our locks; number one was formerly taken at commit.
const migrationLock = "1835365224, 2"

// couldMigrate is the condition that a role, by its oid, could migrate the schema: it is a member of the
// owner or, without a schema, may create one.
const couldMigrate = `coalesce((SELECT pg_has_role(%[1]s, n.nspowner, 'MEMBER') FROM pg_namespace n WHERE n.nspname = 'mesh'), has_database_privilege(%[1]s, current_database(), 'CREATE'))`

// migrationHolders lists the sessions with the lock that could migrate, and those that could not.
var migrationHolders = `SELECT coalesce(string_agg(h.name, ', ') FILTER (WHERE h.could), ''), coalesce(string_agg(h.name, ', ') FILTER (WHERE NOT h.could), '')
	FROM (SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) AS name, ` + fmt.Sprintf(couldMigrate, "a.usesysid") + ` AS could
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND (l.classid, l.objid, l.objsubid) = (` + migrationLock + `, 2)
			AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) h`

// migratesBefore finds a migrating session that connected before this one.
var migratesBefore = `SELECT coalesce((SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) FROM pg_stat_activity a, pg_stat_activity own
	WHERE own.pid = pg_backend_pid() AND a.datname = current_database() AND a.application_name = own.application_name AND (a.backend_start, a.pid) < (own.backend_start, own.pid)
		AND ` + fmt.Sprintf(couldMigrate, "a.usesysid") + ` ORDER BY a.backend_start LIMIT 1), '')`

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
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+migrationLock+")").Scan(&mine); err != nil || mine {
		return mine, "", err
	}
	var strangers string
	err = conn.QueryRow(ctx, migrationHolders).Scan(&before, &strangers)
	if err != nil || before != "" || strangers == "" { // the lock is free by now: try again
		return false, before, err
	}
	if err := conn.QueryRow(ctx, migratesBefore).Scan(&before); err != nil || before != "" {
		return false, before, err
	}
	tell(strangers + " holds the lock of those that migrate, and could not: going on without it")
	return true, "", nil
}

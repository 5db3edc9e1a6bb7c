package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/wait"
)

// Programs that migrate take turns by an advisory lock, for there may be no table yet. Whoever may connect can take it, too, and keep it; so it is
// waited for only while somebody has it who could migrate. Otherwise those take turns in the order in which they connected.

// migrationLock is "mesh" in ASCII, and the second lock of ours; the first was taken at commit once.
const migrationLock = "1835365224, 2"

// couldMigrate tells whether a role, by its oid, could migrate the schema: as one of its owners, or, where there is none, as one who may make it.
const couldMigrate = `coalesce((SELECT pg_has_role(%[1]s, n.nspowner, 'MEMBER') FROM pg_namespace n WHERE n.nspname = 'mesh'), has_database_privilege(%[1]s, current_database(), 'CREATE'))`

// migrationHolders are the sessions that have the lock and could migrate, and those that could not.
var migrationHolders = `SELECT coalesce(string_agg(h.name, ', ') FILTER (WHERE h.could), ''), coalesce(string_agg(h.name, ', ') FILTER (WHERE NOT h.could), '')
	FROM (SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) AS name, ` + fmt.Sprintf(couldMigrate, "a.usesysid") + ` AS could
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND (l.classid, l.objid, l.objsubid) = (` + migrationLock + `, 2)
			AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) h`

// migratesBefore is a session that migrates and came before this one.
var migratesBefore = `SELECT coalesce((SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) FROM pg_stat_activity a, pg_stat_activity own
	WHERE own.pid = pg_backend_pid() AND a.datname = current_database() AND a.application_name = own.application_name AND (a.backend_start, a.pid) < (own.backend_start, own.pid)
		AND ` + fmt.Sprintf(couldMigrate, "a.usesysid") + ` ORDER BY a.backend_start LIMIT 1), '')`

// turnPoll is how often it is looked whether it is one's turn.
const turnPoll = 50 * time.Millisecond

// takeTurn returns when no other program migrates, and has others wait until the connection ends.
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
		if !wait.For(ctx, turnPoll) {
			return ctx.Err()
		}
	}
}

// turn tells whether it is one's turn, or whose.
func turn(ctx context.Context, conn *pgx.Conn, tell func(string)) (mine bool, before string, err error) {
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+migrationLock+")").Scan(&mine); err != nil || mine {
		return mine, "", err
	}
	var strangers string
	err = conn.QueryRow(ctx, migrationHolders).Scan(&before, &strangers)
	if err != nil || before != "" || strangers == "" { // nobody has it by now: it is tried again
		return false, before, err
	}
	if err := conn.QueryRow(ctx, migratesBefore).Scan(&before); err != nil || before != "" {
		return false, before, err
	}
	tell(strangers + " holds the lock of those that migrate, and could not: going on without it")
	return true, "", nil
}

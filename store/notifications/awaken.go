package notifications

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/store"
)

// Reconnecting are the pauses between connections of those who follow the database. The first is
// short: a change may have come meanwhile.
var Reconnecting = retry.Pauses{First: 20 * time.Millisecond, Longest: 5 * time.Second}

// Awaken calls each when tables that servers use may have changed: mesh.readers, mesh.tokens, and
// others that call mesh_internal.wake_servers. It passes the name of the table, or "" for all. It
// does so at the start, after each notification, and at an interval because notifications can be
// lost. It survives lost connections, and returns when ctx ends.
func Awaken(ctx context.Context, db *store.Store, every time.Duration, each func(table string)) error {
	return retry.Loop{
		Pauses: retry.Pauses{First: Reconnecting.First, Longest: every},
		Failed: func(err error, again time.Duration) {
			db.Log().Debug("cannot wait for changes of who may call", "error", err, "again_in", again)
			each("") // the callee finds out whether the database answers
		},
	}.Forever(ctx, func(works func()) error {
		return awaken(ctx, db, every, func(table string) {
			works()
			each(table)
		})
	})
}

// awaken waits on one connection until that fails.
func awaken(ctx context.Context, db *store.Store, every time.Duration, each func(table string)) error {
	conn, err := pgx.ConnectConfig(ctx, db.Pool().Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer store.CloseConn(conn)
	if _, err := ListenForServers(ctx, conn); err != nil { // a standby cannot notify, so each("") is called at the interval
		return err
	}
	var hurry FastPoll
	for {
		each("")
		if err := notified(ctx, conn, hurry.Interval(every), each); err != nil {
			return err
		}
		if err := hurry.Check(ctx, conn, db.Log()); err != nil { // this also detects a dead connection
			return err
		}
	}
}

// notified passes on notifications for one interval: the first at once, and those soon after it
// together.
func notified(ctx context.Context, conn *pgx.Conn, every time.Duration, each func(table string)) error {
	over := time.Now().Add(every)
	for {
		first, err := tablesUntil(ctx, conn, over, 1)
		if err != nil || len(first) == 0 {
			return err
		}
		callEach(first, each)
		more, err := tablesUntil(ctx, conn, time.Now().Add(SpuriousPause), math.MaxInt)
		if err != nil {
			return err
		}
		callEach(more, each)
	}
}

// tablesUntil collects the tables that notifications name, until a time or a number of
// notifications.
func tablesUntil(ctx context.Context, conn *pgx.Conn, until time.Time, enough int) (map[string]bool, error) {
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	named := map[string]bool{}
	for range enough {
		n, err := conn.WaitForNotification(within)
		if err != nil {
			if within.Err() != nil && ctx.Err() == nil {
				return named, nil
			}
			return named, err
		}
		if len(named) < maxTables {
			named[n.Payload] = true
		}
	}
	return named, nil
}

// maxTables is more than there are. Other names were sent by somebody else.
const maxTables = 64

func callEach(tables map[string]bool, each func(table string)) {
	for table := range tables {
		each(table)
	}
}

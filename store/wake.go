package store

import (
	"context"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/wait"
)

// Awaken calls each whenever tables by which servers go may have changed: mesh.readers and mesh.tokens, and whichever others call
// mesh.wake_servers. It is called at first, after each notification, and every so often, for notifications can be lost: with the
// name of a table, or with "" for all of them. It returns when ctx ends, and lives through lost connections.
func (s *Store) Awaken(ctx context.Context, every time.Duration, each func(table string)) error {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 20*time.Millisecond, every
	for {
		err := s.awaken(ctx, every, func(table string) {
			retry.Reset()
			each(table)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause := retry.NextBackOff()
		s.options.Log.Debug("cannot wait for changes of who may call", "error", err, "again_in", pause)
		each("") // which finds out by itself whether the database can be asked
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// awaken waits on one connection, until that fails.
func (s *Store) awaken(ctx context.Context, every time.Duration, each func(table string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := listen(ctx, conn, serversChannel); err != nil { // on a standby, what comes is each("") every so often
		return err
	}
	var hurry fastPoll
	for {
		each("")
		if err := notified(ctx, conn, hurry.interval(every), each); err != nil {
			return err
		}
		if err := hurry.check(ctx, s, conn); err != nil { // which also makes sure that there still is somebody at the other end
			return err
		}
	}
}

// notified tells of notifications until the time is over: of the first at once, and of those that follow it closely together.
func notified(ctx context.Context, conn *pgx.Conn, every time.Duration, each func(table string)) error {
	over := time.Now().Add(every)
	for {
		first, err := tablesUntil(ctx, conn, over, 1)
		if err != nil || len(first) == 0 {
			return err
		}
		tell(first, each)
		more, err := tablesUntil(ctx, conn, time.Now().Add(spuriousWakePause), math.MaxInt)
		if err != nil {
			return err
		}
		tell(more, each)
	}
}

// tablesUntil gathers the tables that notifications name until a time, or until there are enough.
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
		if len(named) < mostTables {
			named[n.Payload] = true
		}
	}
	return named, nil
}

// mostTables is more than there are. Whatever else is named was sent by somebody else.
const mostTables = 64

func tell(tables map[string]bool, each func(table string)) {
	for table := range tables {
		each(table)
	}
}

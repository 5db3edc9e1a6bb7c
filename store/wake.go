package store

import (
	"context"
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
	for {
		each("")
		if err := notified(ctx, conn, every, each); err != nil {
			return err
		}
	}
}

// notified tells of notifications until the time is over, and then makes sure that there still is somebody at the other end.
func notified(ctx context.Context, conn *pgx.Conn, every time.Duration, each func(table string)) error {
	within, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(within)
		switch {
		case err == nil:
			each(n.Payload)
		case within.Err() == nil || ctx.Err() != nil:
			return err
		default:
			ctx, cancel := context.WithTimeout(ctx, queryTimeout)
			defer cancel()
			return conn.Ping(ctx)
		}
	}
}

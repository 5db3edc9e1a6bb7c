package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// follower hands on the batches after a revision. What it has handed on outlives its connections.
type follower struct {
	store *Store
	each  func(Batch) error
	seen  Revision
	at    time.Time // when seen was committed; zero until the follower has read a batch
}

// Follow calls each with every batch after the revision, in order and once, as they are committed. It lives through
// lost connections. It returns when ctx ends, with its error; when each fails, with that error; and with ErrTooOld.
func (s *Store) Follow(ctx context.Context, after Revision, each func(Batch) error) error {
	f := &follower{store: s, each: each, seen: after}
	defer s.status.stopped()
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 20*time.Millisecond, 5*time.Second
	for {
		err := f.session(ctx, retry.Reset)
		if theirs := fromCaller(err); theirs != nil {
			return theirs
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrTooOld) {
			return err
		}
		err = explain("following the revisions", err)
		pause := retry.NextBackOff()
		s.status.lost(err)
		s.options.Log.Warn("lost the database, connecting again", "error", err, "in", pause.Round(time.Millisecond), "seen", f.seen)
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// session follows on one connection until something fails. It calls healthy when the connection works.
func (f *follower) session(ctx context.Context, healthy func()) error {
	config := f.store.connConfig()
	config.RuntimeParams["application_name"] = f.store.options.Application + " feed"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, feedSettings); err != nil {
		return err
	}
	standby, err := f.listen(ctx, conn)
	if err != nil {
		return err
	}
	if err := f.checkPosition(ctx, conn); err != nil {
		return err
	}
	healthy()
	f.store.status.connected(standby)
	for {
		if err := f.catchUp(ctx, conn); err != nil {
			return err
		}
		if standby, err = f.wait(ctx, conn, standby); err != nil {
			return err
		}
	}
}

// feedSettings keep Postgres from planning the query for a page anew for every revision, which would cost more than the query.
// They are set here and not as the connection starts, since a pooler may refuse a start with settings that it does not know.
const feedSettings = "SET plan_cache_mode = force_generic_plan; SET jit = off"

// closeConn says goodbye, but not for long to a server that does not hear it.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// listen asks to be woken. A hot standby refuses that.
func (f *follower) listen(ctx context.Context, conn *pgx.Conn) (standby bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	_, err = conn.Exec(ctx, "LISTEN mesh")
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == readOnlyTransaction {
		return true, nil
	}
	return false, err
}

const (
	readOnlyTransaction = "25006"

	// queryTimeout finds out that the other end is gone without a word.
	queryTimeout = 20 * time.Second
)

// checkPosition makes sure that the database still has the revision that was seen last: it may have been restored, or
// be a standby that was promoted before it had everything.
func (f *follower) checkPosition(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var newest Revision
	var at *time.Time
	err := conn.QueryRow(ctx, `SELECT coalesce(max(revision), 0), max(time) FILTER (WHERE revision = $1)
		FROM mesh.transactions WHERE revision >= $1`, f.seen).Scan(&newest, &at)
	if err != nil {
		return err
	}
	if newest < f.seen || f.seen > 0 && !f.at.IsZero() && (at == nil || !at.Equal(f.at)) {
		return fmt.Errorf("%w: revision %d was seen and the database does not have it: it was restored, or failed over to a standby that lagged", ErrTooOld, f.seen)
	}
	return nil
}

// wait returns when there may be something new. On a standby it also finds out whether it was promoted.
func (f *follower) wait(ctx context.Context, conn *pgx.Conn, standby bool) (stillStandby bool, err error) {
	if standby {
		if !sleep(ctx, f.store.options.StandbyPoll) {
			return true, ctx.Err()
		}
		return f.listen(ctx, conn)
	}
	ctx, cancel := context.WithTimeout(ctx, f.store.options.Poll)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil && ctx.Err() == context.DeadlineExceeded {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// What cannot be read as a number was sent by somebody else, and costs one look.
		if revision, err := strconv.ParseInt(n.Payload, 10, 64); err != nil || revision > f.seen {
			return false, nil
		}
	}
}

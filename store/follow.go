package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// follower passes on the batches after a position. It survives its connections.
type follower struct {
	store    *Store
	each     func(Batch) error
	seen     Position
	fastPoll fastPoll
	woken    bool // by a notification
}

// Follow calls each with every batch after a position, in order and once, as they are committed. It
// survives lost connections and failovers. It returns the error of ctx when that ends, the error of each
// when that fails, or ErrTooOld.
func (s *Store) Follow(ctx context.Context, after Position, each func(Batch) error) error {
	f := &follower{store: s, each: each, seen: after}
	defer s.status.stopped()
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 20*time.Millisecond, 5*time.Second
	for {
		err := f.session(ctx, retry.Reset)
		if theirs := FromCaller(err); theirs != nil {
			return theirs
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrTooOld) {
			return err
		}
		err = Explain("following the revisions", err)
		pause := retry.NextBackOff()
		s.status.lost(err)
		s.options.Log.Warn("lost the database, connecting again", "error", err, "in", pause.Round(time.Millisecond), "seen", f.seen.Revision)
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// session follows on one connection until something fails. It calls healthy once the connection works.
func (f *follower) session(ctx context.Context, healthy func()) error {
	conn, err := f.store.connectFeed(ctx)
	if err != nil {
		return err
	}
	defer CloseConn(conn)
	if _, err := conn.Exec(ctx, pageSettings); err != nil {
		return err
	}
	standby, err := listen(ctx, conn, revisionsChannel)
	if err != nil {
		return err
	}
	if err := f.resume(ctx, conn, standby); err != nil {
		return err
	}
	healthy()
	for {
		f.store.status.connected(standby)
		before := f.seen.Revision
		if err := f.catchUp(ctx, conn); err != nil {
			return err
		}
		if f.woken && f.seen.Revision == before && !wait.For(ctx, spuriousWakePause) {
			return ctx.Err()
		}
		if standby, err = f.wait(ctx, conn, standby); err != nil {
			return err
		}
	}
}

// The notification channels: one for revisions, and one for changes of tables that servers use.
const (
	revisionsChannel = "mesh"
	serversChannel   = "mesh_servers"
)

// listen subscribes to a channel, unless the database is a hot standby, which would refuse.
func listen(ctx context.Context, conn *pgx.Conn, channel string) (standby bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil || standby {
		return standby, err
	}
	_, err = conn.Exec(ctx, "LISTEN "+channel)
	return false, err
}

// wait waits until there may be a new revision. On a standby it also checks whether that was promoted.
func (f *follower) wait(ctx context.Context, conn *pgx.Conn, standby bool) (stillStandby bool, err error) {
	if standby {
		if !wait.For(ctx, f.store.options.StandbyPoll) {
			return true, ctx.Err()
		}
		return listen(ctx, conn, revisionsChannel)
	}
	within, cancel := context.WithTimeout(ctx, f.fastPoll.interval(f.store.options.Poll))
	defer cancel()
	for f.woken = false; ; {
		n, err := conn.WaitForNotification(within)
		if err != nil && within.Err() == context.DeadlineExceeded {
			return false, f.fastPoll.check(ctx, f.store, conn)
		}
		if err != nil {
			return false, err
		}
		// A payload that is no number came from somebody else, and costs one check.
		if revision, err := strconv.ParseInt(n.Payload, 10, 64); err != nil || revision > f.seen.Revision {
			f.woken = true
			return false, nil
		}
	}
}

// lagTimeout is how long a standby may lag behind the last seen revision before that counts as lost.
const lagTimeout = 30 * time.Second

// resume checks that the database has the last seen revision. It does not if it was restored, or was
// promoted too early. A database that still is a standby may just lag, and is waited for.
func (f *follower) resume(ctx context.Context, conn *pgx.Conn, standby bool) error {
	for deadline := time.Now().Add(lagTimeout); ; {
		newest, mark, err := f.position(ctx, conn)
		switch {
		case err != nil:
			return err
		case newest >= f.seen.Revision && (mark == f.seen.Mark || f.seen.Mark == ""):
			return nil
		case newest >= f.seen.Revision || !standby || time.Now().After(deadline):
			return fmt.Errorf("%w: revision %d was seen and the database does not have it: it was restored, or failed over to a standby that lagged", ErrTooOld, f.seen.Revision)
		}
		if !wait.For(ctx, f.store.options.StandbyPoll) {
			return ctx.Err()
		}
		if standby, err = listen(ctx, conn, revisionsChannel); err != nil {
			return err
		}
	}
}

// position returns the newest revision, and the mark of the last seen one.
func (f *follower) position(ctx context.Context, conn *pgx.Conn) (newest Revision, mark string, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, `SELECT (SELECT coalesce(max(revision), 0) FROM mesh.transactions),
		coalesce((SELECT `+markColumn+` FROM mesh.transactions t WHERE t.revision = $1), '')`, f.seen.Revision).Scan(&newest, &mark)
	return newest, mark, err
}

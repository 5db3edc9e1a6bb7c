package feed

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/notifications"
)

// follower passes on the batches after a position. It survives its connections.
type follower struct {
	feed     *Feed
	each     func(Batch) error
	seen     Position
	fastPoll notifications.FastPoll
	woken    bool // by a notification
}

// Follow calls each with every batch after a position, in order and once, as they are committed. It
// survives lost connections and failovers. It returns the error of ctx when that ends, the error of
// each when that fails, or ErrTooOld.
func (f *Feed) Follow(ctx context.Context, after Position, each func(Batch) error) error {
	following := &follower{feed: f, each: each, seen: after}
	defer f.status.stopped()
	return retry.Loop{Pauses: notifications.Reconnecting, Failed: following.lost}.Forever(ctx, func(works func()) error {
		err := following.session(ctx, works)
		if theirs := store.FromCaller(err); theirs != nil {
			return retry.Stop(theirs)
		}
		if errors.Is(err, ErrTooOld) {
			return retry.Stop(err)
		}
		return err
	})
}

func (f *follower) lost(err error, again time.Duration) {
	err = store.Explain("following the revisions", err)
	f.feed.status.lost(err)
	f.feed.db.Log().Warn("lost the database, connecting again", "error", err, "again_in", again.Round(time.Millisecond), "seen", f.seen.Revision)
}

// session follows on one connection until something fails. It calls healthy once the connection
// works.
func (f *follower) session(ctx context.Context, healthy func()) error {
	conn, err := f.feed.connect(ctx)
	if err != nil {
		return err
	}
	defer store.CloseConn(conn)
	if _, err := conn.Exec(ctx, sql.PageSettings); err != nil {
		return err
	}
	standby, err := notifications.ListenForRevisions(ctx, conn)
	if err != nil {
		return err
	}
	if err := f.resume(ctx, conn, standby); err != nil {
		return err
	}
	healthy()
	for resumed := true; ; resumed = false {
		f.feed.status.connected(standby)
		before := f.seen.Revision
		if err := f.catchUp(ctx, conn); err != nil {
			return err
		}
		if f.seen.Revision == before && !resumed {
			if err := f.idle(ctx, conn, standby); err != nil {
				return err
			}
		}
		if standby, err = f.wait(ctx, conn, standby); err != nil {
			return err
		}
	}
}

// idle is called when there is nothing new. Of a database that was restored under the connection, that
// may be because it has gone back: it is then behind what was seen, or has got there by other changes.
func (f *follower) idle(ctx context.Context, conn *pgx.Conn, standby bool) error {
	if err := f.resume(ctx, conn, standby); err != nil {
		return err
	}
	if f.woken && !wait.For(ctx, notifications.SpuriousPause) {
		return ctx.Err()
	}
	return nil
}

// wait waits until there may be a new revision. On a standby it also checks whether that was
// promoted.
func (f *follower) wait(ctx context.Context, conn *pgx.Conn, standby bool) (stillStandby bool, err error) {
	if standby {
		if !wait.For(ctx, f.feed.options.StandbyPoll) {
			return true, ctx.Err()
		}
		return notifications.ListenForRevisions(ctx, conn)
	}
	within, cancel := context.WithTimeout(ctx, f.fastPoll.Interval(f.feed.options.Poll))
	defer cancel()
	for f.woken = false; ; {
		n, err := conn.WaitForNotification(within)
		if err != nil && within.Err() == context.DeadlineExceeded {
			return false, f.fastPoll.Check(ctx, conn, f.feed.db.Log())
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

// lagTimeout is how long a standby may lag behind the last seen revision before that counts as
// lost.
const lagTimeout = 30 * time.Second

// resume checks that the database has the last seen revision. It does not if it was restored, or
// was promoted too early. A database that still is a standby may just lag, and is waited for.
func (f *follower) resume(ctx context.Context, conn *pgx.Conn, standby bool) error {
	for deadline := time.Now().Add(lagTimeout); ; {
		newest, mark, err := readPosition(ctx, conn, f.seen.Revision)
		switch {
		case err != nil:
			return err
		case newest >= f.seen.Revision && f.seen.is(mark):
			return nil
		case newest >= f.seen.Revision || !standby || time.Now().After(deadline):
			return f.seen.gone()
		}
		if !wait.For(ctx, f.feed.options.StandbyPoll) {
			return ctx.Err()
		}
		if standby, err = notifications.ListenForRevisions(ctx, conn); err != nil {
			return err
		}
	}
}

// readPosition returns the newest revision, and the mark of the last seen one.
func readPosition(ctx context.Context, conn *pgx.Conn, seen store.Revision) (newest store.Revision, mark string, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, sql.Position, seen).Scan(&newest, &mark)
	return newest, mark, err
}

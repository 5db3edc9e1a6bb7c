package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/wait"
)

// follower hands on the batches after a revision. What it has handed on outlives its connections.
type follower struct {
	store *Store
	each  func(Batch) error
	seen  Position
	hurry hurry
	woken bool // by a notification
}

// Follow calls each with every batch after a position, in order and once, as they are committed. It lives through lost
// connections and failovers. It returns when ctx ends, with its error; when each fails, with that error; and with ErrTooOld.
func (s *Store) Follow(ctx context.Context, after Position, each func(Batch) error) error {
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
		s.options.Log.Warn("lost the database, connecting again", "error", err, "in", pause.Round(time.Millisecond), "seen", f.seen.Revision)
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// session follows on one connection until something fails. It calls healthy when the connection works.
func (f *follower) session(ctx context.Context, healthy func()) error {
	conn, err := f.store.connectFeed(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
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
		if f.woken && f.seen.Revision == before && !wait.For(ctx, fruitlessPause) {
			return ctx.Err()
		}
		if standby, err = f.wait(ctx, conn, standby); err != nil {
			return err
		}
	}
}

// queryTimeout finds out that the other end is gone without a word.
const queryTimeout = 20 * time.Second

// What the database notifies on: of each revision, and of changes to tables that servers go by.
const (
	revisionsChannel = "mesh"
	serversChannel   = "mesh_servers"
)

// listen asks to be woken, which a hot standby would refuse.
func listen(ctx context.Context, conn *pgx.Conn, channel string) (standby bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil || standby {
		return standby, err
	}
	_, err = conn.Exec(ctx, "LISTEN "+channel)
	return false, err
}

// wait returns when there may be something new. On a standby it also finds out whether it was promoted.
func (f *follower) wait(ctx context.Context, conn *pgx.Conn, standby bool) (stillStandby bool, err error) {
	if standby {
		if !wait.For(ctx, f.store.options.StandbyPoll) {
			return true, ctx.Err()
		}
		return listen(ctx, conn, revisionsChannel)
	}
	within, cancel := context.WithTimeout(ctx, f.hurry.every(f.store.options.Poll))
	defer cancel()
	for f.woken = false; ; {
		n, err := conn.WaitForNotification(within)
		if err != nil && within.Err() == context.DeadlineExceeded {
			return false, f.hurry.look(ctx, f.store, conn)
		}
		if err != nil {
			return false, err
		}
		// What cannot be read as a number was sent by somebody else, and costs one look.
		if revision, err := strconv.ParseInt(n.Payload, 10, 64); err != nil || revision > f.seen.Revision {
			f.woken = true
			return false, nil
		}
	}
}

// lagTimeout is how long a standby may lag behind what was seen elsewhere before that is taken for lost.
const lagTimeout = 30 * time.Second

// resume makes sure that the database has the revision that was seen last: it may have been restored, or be a standby that was
// promoted before it had everything. One that is still a standby may just not have it yet, and is waited for.
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

// position tells the newest revision of the database, and its mark of the one that was seen.
func (f *follower) position(ctx context.Context, conn *pgx.Conn) (newest Revision, mark string, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, `SELECT (SELECT coalesce(max(revision), 0) FROM mesh.transactions),
		coalesce((SELECT `+markColumn+` FROM mesh.transactions t WHERE t.revision = $1), '')`, f.seen.Revision).Scan(&newest, &mark)
	return newest, mark, err
}

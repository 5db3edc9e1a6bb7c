package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres keeps notifications until each listening session has read them. Whoever may connect can
// listen, stay in a transaction and send, until the queue is full and every commit that notifies fails.
// So the database stops notifying when the queue is half full (mesh.notify), and programs poll fast from
// a quarter on.

// fastPollInterval is that faster polling interval.
const fastPollInterval = 50 * time.Millisecond

// queueFilling reports whether notifications may be left out now or soon.
func queueFilling(ctx context.Context, conn *pgx.Conn) (hurry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, "SELECT mesh.notification_queue_usage() >= 0.25").Scan(&hurry)
	return hurry, err
}

// fastPoll is whether to poll fast.
type fastPoll bool

// interval returns the polling interval, which usually is the given one.
func (h fastPoll) interval(usual time.Duration) time.Duration {
	if h {
		return min(fastPollInterval, usual)
	}
	return usual
}

// check updates whether to poll fast, and logs changes.
func (h *fastPoll) check(ctx context.Context, s *Store, conn *pgx.Conn) error {
	now, err := queueFilling(ctx, conn)
	if err != nil || fastPoll(now) == *h {
		return err
	}
	*h = fastPoll(now)
	if now {
		s.options.Log.Warn("the database's queue of notifications fills: a session listens and stays in a transaction, or one sends very much. "+
			"Changes are found by asking until it empties; end that session (mesh.blockers names it)", "every", fastPollInterval)
	} else {
		s.options.Log.Info("the database's queue of notifications has emptied")
	}
	return nil
}

// A notification that leads to no new revision was sent by somebody else. The next check waits for
// spuriousWakePause, so that whoever sends many does not cause a query each.
const spuriousWakePause = 10 * time.Millisecond

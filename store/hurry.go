package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres keeps notifications until each session that listens has read them. Anybody who may connect can listen, stay in a transaction, and
// send: the queue fills, and where it is full a commit that notifies fails. So the database leaves notifications out from a half on (mesh.notify),
// and those who wait for them ask often from a quarter on.

// hurried is how often they ask then.
const hurried = 50 * time.Millisecond

// inHurry tells whether notifications may be left out, now or before long.
func inHurry(ctx context.Context, conn *pgx.Conn) (hurry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, "SELECT mesh.notification_queue_usage() >= 0.25").Scan(&hurry)
	return hurry, err
}

// hurry is whether one who waits has to ask often.
type hurry bool

// every is how often that is, where else it is as often as given.
func (h hurry) every(usual time.Duration) time.Duration {
	if h {
		return min(hurried, usual)
	}
	return usual
}

// look finds out whether it has to, and says so when that changes.
func (h *hurry) look(ctx context.Context, s *Store, conn *pgx.Conn) error {
	now, err := inHurry(ctx, conn)
	if err != nil || hurry(now) == *h {
		return err
	}
	*h = hurry(now)
	if now {
		s.options.Log.Warn("the database's queue of notifications fills: a session listens and stays in a transaction, or one sends very much. "+
			"Changes are found by asking until it empties; end that session (mesh.blockers names it)", "every", hurried)
	} else {
		s.options.Log.Info("the database's queue of notifications has emptied")
	}
	return nil
}

// A notification that leads to nothing new was sent by somebody else. After one, a while has to pass before the next is looked at, so that who
// sends many does not have the database asked for each.
const fruitlessPause = 10 * time.Millisecond

package notifications

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Postgres keeps notifications until each listening session has read them. Whoever may connect can
// listen, stay in a transaction and send, until the queue is full and every commit that notifies
// fails. So the database stops notifying when the queue is half full (mesh_internal.notify), and
// programs poll fast from a quarter on.

// fastPollInterval is that faster polling interval.
const fastPollInterval = 50 * time.Millisecond

// FastPoll is whether to poll fast.
type FastPoll bool

// Interval returns the polling interval, which usually is the given one.
func (h FastPoll) Interval(usual time.Duration) time.Duration {
	if h {
		return min(fastPollInterval, usual)
	}
	return usual
}

// Check updates whether to poll fast, and logs changes. It fails if the connection is dead.
func (h *FastPoll) Check(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	now, err := queueIsFilling(ctx, conn)
	if err != nil || FastPoll(now) == *h {
		return err
	}
	*h = FastPoll(now)
	if now {
		log.Warn("the database's queue of notifications fills: a session listens and stays in a transaction, or one sends very much. "+
			"Changes are found by asking until it empties; end that session (mesh.blockers names it)", "every", fastPollInterval)
	} else {
		log.Info("the database's queue of notifications has emptied")
	}
	return nil
}

func queueIsFilling(ctx context.Context, conn *pgx.Conn) (filling bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, sql.QueueIsFilling).Scan(&filling)
	return filling, err
}

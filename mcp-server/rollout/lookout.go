package rollout

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/store/rollout"
)

// lookInterval is how often the proxies are counted while somebody waits.
const lookInterval = 20 * time.Millisecond

// lookout counts the proxies for all who wait, so that many of them cost the database no more than
// one. Nobody counts while nobody waits.
type lookout struct {
	read func(context.Context) ([]rollout.Tally, error)
	turn chan struct{} // a semaphore of one: who looks, and has the fields below

	seen         []rollout.Tally
	begun, ended time.Time // of that look
	pause        time.Duration
}

func newLookout(read func(context.Context) ([]rollout.Tally, error)) *lookout {
	return &lookout{read: read, turn: make(chan struct{}, 1)}
}

// look returns what was seen last, if that was just now and the look began after a time, or else
// looks. It also returns after what pause to come back. Where there are so many proxies that counting takes long, the database counts
// for half of the time at most.
func (o *lookout) look(ctx context.Context, after time.Time) (seen []rollout.Tally, pause time.Duration, err error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	begun := time.Now()
	if begun.Sub(o.ended) < o.pause && o.begun.After(after) {
		return o.seen, o.pause, nil
	}
	if seen, err = o.read(ctx); err != nil {
		return nil, 0, err
	}
	o.seen, o.begun, o.ended = seen, begun, time.Now()
	o.pause = max(lookInterval, o.ended.Sub(begun))
	return o.seen, o.pause, nil
}

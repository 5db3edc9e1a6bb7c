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
	turn chan struct{} // a semaphore of one: who looks, and has the field below
	last tallied
}

// tallied is what a look has seen.
type tallied struct {
	seen         []rollout.Tally
	begun, ended time.Time
}

// again is when to look again if there is news. Where there are so many proxies that counting takes
// long, the database counts for half of the time at most.
func (s tallied) again() time.Time { return s.ended.Add(s.ended.Sub(s.begun)) }

// stale is when to look again although nothing was heard.
func (s tallied) stale() time.Time { return s.ended.Add(max(lookInterval, s.ended.Sub(s.begun))) }

func newLookout(read func(context.Context) ([]rollout.Tally, error)) *lookout {
	return &lookout{read: read, turn: make(chan struct{}, 1)}
}

// look returns what was seen last, if that was just now and the look began after a time, or else
// looks.
func (o *lookout) look(ctx context.Context, after time.Time) (tallied, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return tallied{}, ctx.Err()
	}
	begun := time.Now()
	if begun.Before(o.last.stale()) && o.last.begun.After(after) {
		return o.last, nil
	}
	seen, err := o.read(ctx)
	if err != nil {
		return tallied{}, err
	}
	o.last = tallied{seen, begun, time.Now()}
	return o.last, nil
}

package registry

import (
	"context"
	"errors"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

const (
	// takeoverRounds is for how many intervals the clock must stand still before another server
	// advances it.
	takeoverRounds = 3

	// maxStepRounds bounds how far the clock advances at once, in intervals. A longer time means
	// that somebody was away.
	maxStepRounds = 4

	// removeBatchSize is how many machines are removed in one transaction.
	removeBatchSize = 500

	// idleRounds is how many rounds a server skips that found nothing to watch and has no session.
	idleRounds = 15

	// orphanInterval is how often to look for entries that belong to no machine.
	orphanInterval = 10 * time.Minute
)

// sweeperAuthor is the author of revisions that remove lost machines.
const sweeperAuthor = "pgmesh registry"

// clockWatch is what one server knows of the database's clock: where it stood, and since when, by
// this server's monotonic clock. It forgets that after a failure and while it rests, so time in
// which the database is away, or nobody watches, does not count.
type clockWatch struct {
	*Registry

	beat        int64
	seenAt      time.Time // when beat was read; zero after a failure
	leading     bool      // this server advanced the clock last
	total       time.Duration
	nextOrphans time.Duration // at which total to look for orphans
	restRounds  int           // rounds to skip
	logged      bool          // the current failure was logged
}

// runRound does what is due in one interval.
func (w *clockWatch) runRound(ctx context.Context) {
	if w.restRounds > 0 && !w.busy() {
		w.restRounds--
		return
	}
	w.restRounds = 0
	err := w.tick(ctx)
	if err == nil {
		w.logged = false
		return
	}
	w.seenAt, w.leading = time.Time{}, false
	if ctx.Err() == nil && !store.Temporary(err) && !w.logged {
		w.logged = true
		w.log.Error("cannot watch over machines; the server goes on trying", "error", err)
	}
}

// busy reports whether this server has sessions.
func (w *clockWatch) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions) > 0
}

// tick advances the clock, unless another server does, and removes lost machines.
func (w *clockWatch) tick(ctx context.Context) error {
	now := time.Now()
	step := time.Duration(0)
	if !w.seenAt.IsZero() && (w.leading || now.Sub(w.seenAt) >= takeoverRounds*w.options.RefreshInterval) {
		step = min(now.Sub(w.seenAt), maxStepRounds*w.options.RefreshInterval)
	}
	clock, err := w.machines.Watch(ctx, w.beat, step, w.options.Lease)
	if err != nil {
		return err
	}
	w.leading = clock.Moved
	if !clock.Moved {
		if clock.Idle {
			w.restRounds, w.seenAt = idleRounds, time.Time{}
		} else if clock.Beat != w.beat || w.seenAt.IsZero() {
			w.beat, w.seenAt = clock.Beat, time.Now() // another server's step ended before this call did
		}
		return nil
	}
	w.beat, w.seenAt = clock.Beat, now
	w.total += step
	if err := w.remove(ctx); !errors.Is(err, store.ErrConflict) { // whoever changes the same groups soon releases them
		return err
	}
	return nil
}

// remove removes machines that were gone for the grace period, and now and then entries that belong
// to no machine.
func (w *clockWatch) remove(ctx context.Context) error {
	grace := w.options.Grace + w.options.RefreshInterval // the clock moves in steps: a machine may have been there until the last one
	for {
		removed, err := w.machines.RemoveGone(ctx, grace, removeBatchSize, sweeperAuthor)
		if err != nil {
			return err
		}
		if removed == 0 {
			break
		}
		w.metrics.removed.Add(float64(removed))
		w.log.Info("removed machines that were gone", "services", removed)
	}
	if w.total < max(w.nextOrphans, w.options.Grace+w.options.Lease) {
		return nil
	}
	removed, err := w.machines.RemoveOrphaned(ctx, sweeperAuthor)
	if err != nil {
		return err
	}
	if removed > 0 {
		w.log.Warn("removed WorkloadEntries of machines that nobody knew of", "entries", removed)
	}
	w.nextOrphans = w.total + orphanInterval
	return nil
}

package registry

import (
	"context"
	"errors"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

const (
	// patience is for how many rounds the clock has to stand until a server moves it that has not done so before.
	patience = 3

	// mostRounds is how much time may pass at once: what is longer, somebody was away.
	mostRounds = 4

	// removeAtOnce is how many machines are removed in one transaction.
	removeAtOnce = 500

	// idleRounds is how many rounds a server rests that has found nobody to watch over, and has no session itself.
	idleRounds = 15

	// orphansEvery is how often somebody looks for entries that belong to nobody.
	orphansEvery = 10 * time.Minute
)

// sweeper is who makes the revisions in which machines go that were away for too long.
const sweeper = "pgmesh registry"

// watch is what one server knows of the clock in the database: how it stood, and since when it has known that, by a clock that nobody sets. It
// forgets that with each failure, and while it rests: no time passes in which the database is away, or that nobody has watched.
type watch struct {
	*Registry

	beat    int64
	seen    time.Time // zero: not since the last failure
	moves   bool      // this server was the last to move it
	moved   time.Duration
	orphans time.Duration // of moved, when to look for them
	rests   int           // rounds to sit out
	said    bool          // that it does not work
}

// round does what is to be done every few seconds.
func (w *watch) round(ctx context.Context) {
	if w.rests > 0 && !w.busy() {
		w.rests--
		return
	}
	w.rests = 0
	err := w.look(ctx)
	if err == nil {
		w.said = false
		return
	}
	w.seen, w.moves = time.Time{}, false
	if ctx.Err() == nil && !store.Temporary(err) && !w.said {
		w.said = true
		w.log.Error("cannot watch over machines; the server goes on trying", "error", err)
	}
}

// busy reports whether this server has sessions.
func (w *watch) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions) > 0
}

// look moves the clock on, if nobody else does, and removes who is gone.
func (w *watch) look(ctx context.Context) error {
	now := time.Now()
	step := time.Duration(0)
	if !w.seen.IsZero() && (w.moves || now.Sub(w.seen) >= patience*w.options.Every) {
		step = min(now.Sub(w.seen), mostRounds*w.options.Every)
	}
	clock, err := w.store.WatchWorkloads(ctx, w.beat, step, w.options.Lease)
	if err != nil {
		return err
	}
	w.moves = clock.Moved
	if !clock.Moved {
		if clock.Idle {
			w.rests, w.seen = idleRounds, time.Time{}
		} else if clock.Beat != w.beat || w.seen.IsZero() {
			w.beat, w.seen = clock.Beat, time.Now() // what another moved it by was over before this call was
		}
		return nil
	}
	w.beat, w.seen = clock.Beat, now
	w.moved += step
	if err := w.remove(ctx); !errors.Is(err, store.ErrConflict) { // who is at work on the same groups lets them go
		return err
	}
	return nil
}

// remove removes who was gone for the grace period, and now and then what belongs to nobody.
func (w *watch) remove(ctx context.Context) error {
	grace := w.options.Grace + w.options.Every // who was gone as the clock stood so may have been there until it was moved on
	for {
		removed, err := w.store.RemoveGoneWorkloads(ctx, grace, removeAtOnce, sweeper)
		if err != nil {
			return err
		}
		if removed == 0 {
			break
		}
		w.metrics.removed.Add(float64(removed))
		w.log.Info("removed machines that were gone", "services", removed)
	}
	if w.moved < max(w.orphans, w.options.Grace+w.options.Lease) {
		return nil
	}
	removed, err := w.store.RemoveOrphanedWorkloads(ctx, sweeper)
	if err != nil {
		return err
	}
	if removed > 0 {
		w.log.Warn("removed WorkloadEntries of machines that nobody knew of", "entries", removed)
	}
	w.orphans = w.moved + orphansEvery
	return nil
}

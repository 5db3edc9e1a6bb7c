package rollout

import (
	"math"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// course is what one proxy has before it. It implements [push.Follower]. What it needs for each
// push it has at hand, in 64 bytes that come to the processor together: this is done for every
// proxy at every change, and costs hardly more than to fetch them.
type course struct {
	watch     *watch
	before    []*part  // what it was offered and does not run yet, the oldest first
	room      [1]*part // where that is kept: mostly it is one
	took      uint32   // how long the last took, in microseconds; 0 for none
	apart     bool     // it refuses something, or is silent: no report waits for it
	namespace string
}

// Offered implements [push.Follower].
func (c *course) Offered() {
	w := c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil { // of no new revision, and so in no count
		w.moves++
		w.lags(c)
		return
	}
	if len(c.before) == 0 && !c.apart {
		w.behind++
	}
	if len(c.before) > 0 && c.before[0].of.forgotten {
		c.forget()
	}
	in := w.now.part(c.namespace)
	in.concerned++
	c.before = append(c.before, in)
}

// forget drops the pushes that are remembered no more.
func (c *course) forget() {
	c.before = slices.DeleteFunc(c.before, func(in *part) bool { return in.of.forgotten })
}

// Ran implements [push.Follower].
func (c *course) Ran(s *served.Snapshot) {
	w := c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	runs, now := w.numberOf(s.Revision), time.Now() // with the lock, so that the times of a push are in order
	w.active = true
	w.lagsNoMore(c, s.Push)
	n := 0
	for n < len(c.before) && c.before[n].of.revision <= runs {
		c.took = microseconds(now.Sub(c.before[n].of.begun))
		c.before[n].ran(c.took)
		n++
	}
	if n == 0 {
		return
	}
	c.before = slices.Delete(c.before, 0, n) // which keeps its memory for the next
	if len(c.before) == 0 && !c.apart {
		w.caughtUp()
	}
}

// microseconds counts those of a time, and stops at 71 minutes.
func microseconds(d time.Duration) uint32 {
	return uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
}

// Left implements [push.Follower].
func (c *course) Left(s *served.Subscriber) {
	w := c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	w.moves++
	delete(w.courses, s)
	w.lagsNoMore(c, math.MaxUint64)
	for _, in := range c.before {
		in.lose()
	}
	if len(c.before) > 0 && !c.apart {
		w.caughtUp()
	}
	c.before = nil
}

// setApart notes whether the proxy refuses something, or is silent.
func (c *course) setApart(apart bool) {
	w := c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.apart == apart {
		return
	}
	c.apart = apart
	if apart {
		w.lagsNoMore(c, math.MaxUint64)
	}
	switch {
	case len(c.before) == 0:
	case apart:
		w.caughtUp()
	default:
		w.behind++
	}
}

// lastTook returns how long the last change of the proxy took; 0 if it has had none.
func (c *course) lastTook() time.Duration {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	return time.Duration(c.took) * time.Microsecond
}

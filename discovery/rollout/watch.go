package rollout

import (
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// watch watches pushes on their way to the proxies. It implements [push.Watcher], and so is called
// for each push, and for each proxy once a push: it only counts.
type watch struct {
	mu      sync.Mutex
	pushes  []*pushed // the oldest first
	now     *pushed   // under way; nil if none is, or if nobody reports it
	proxies map[*served.Subscriber]*course
	behind  int              // how many proxies do not run yet what they were offered, and may soon
	refused map[place]uint32 // how many proxies do not, because they refuse something
	active  bool             // something has happened since the last call of quiet

	// settled has an element when the last proxy has come to run what it was offered, of those that
	// are not apart.
	settled chan struct{}
}

// course is what a proxy has before it.
type course struct {
	namespace string
	before    []*pushed     // what it was offered and does not run yet, the oldest first
	took      time.Duration // how long the last took; 0 for none
	apart     bool          // it refuses something, or is silent: no report waits for it
}

// keptPushes is how many pushes are remembered, and keptTime for how long.
const (
	keptPushes = 1000
	keptTime   = time.Hour
)

func newWatch() *watch {
	return &watch{proxies: map[*served.Subscriber]*course{}, settled: make(chan struct{}, 1)}
}

// Joined implements [push.Watcher].
func (w *watch) Joined(s *served.Subscriber, namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	w.proxies[s] = &course{namespace: namespace}
}

// Left implements [push.Watcher].
func (w *watch) Left(s *served.Subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	c := w.proxies[s]
	delete(w.proxies, s)
	if c == nil || len(c.before) == 0 {
		return
	}
	for _, p := range c.before {
		p.lose(c.namespace)
	}
	if !c.apart {
		w.caughtUp()
	}
}

// setApart notes whether a proxy refuses something, or is silent.
func (w *watch) setApart(s *served.Subscriber, apart bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.proxies[s]
	if c == nil || c.apart == apart {
		return
	}
	switch c.apart = apart; {
	case len(c.before) == 0:
	case apart:
		w.caughtUp()
	default:
		w.behind++
	}
}

// Pushing implements [push.Watcher]. A push that brings no new revision is no change of anybody's.
func (w *watch) Pushing(after, revision int64, begun time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	if revision <= after {
		return
	}
	w.now = &pushed{revision: revision, after: after, begun: begun, parts: map[string]*part{}, differs: true}
	w.pushes = append(w.pushes, w.now)
	for len(w.pushes) > keptPushes || begun.Sub(w.pushes[0].begun) > keptTime {
		w.pushes[0].forgotten = true
		w.pushes = w.pushes[1:]
	}
}

// Offered implements [push.Watcher].
func (w *watch) Offered(s *served.Subscriber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.proxies[s]
	if c == nil || w.now == nil {
		return
	}
	if len(c.before) == 0 && !c.apart {
		w.behind++
	}
	if len(c.before) > 0 && c.before[0].forgotten {
		c.forget()
	}
	c.before = append(c.before, w.now)
	w.now.part(c.namespace).concerned++
}

// Pushed implements [push.Watcher].
func (w *watch) Pushed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now = nil; w.behind == 0 {
		w.tellSettled()
	}
}

// Ran implements [push.Watcher].
func (w *watch) Ran(s *served.Subscriber, revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	c := w.proxies[s]
	if c == nil || len(c.before) == 0 {
		return
	}
	runs, n, now := numberOf(revision), 0, time.Now()
	for n < len(c.before) && c.before[n].revision <= runs {
		c.took = now.Sub(c.before[n].begun)
		c.before[n].ran(c.namespace, c.took)
		n++
	}
	c.before = slices.Delete(c.before, 0, n) // which keeps its memory for the next
	if n > 0 && len(c.before) == 0 && !c.apart {
		w.caughtUp()
	}
}

// caughtUp notes that a proxy is no longer behind. The caller holds the lock.
func (w *watch) caughtUp() {
	if w.behind--; w.behind == 0 && w.now == nil {
		w.tellSettled()
	}
}

func (w *watch) tellSettled() {
	select {
	case w.settled <- struct{}{}:
	default:
	}
}

// quiet reports whether nothing has happened since the last call.
func (w *watch) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	active := w.active
	w.active = false
	return !active && w.behind == 0
}

// forget drops the pushes that are remembered no more.
func (c *course) forget() {
	c.before = slices.DeleteFunc(c.before, func(p *pushed) bool { return p.forgotten })
}

package rollout

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// watch watches pushes on their way to the proxies. It implements [push.Watcher], and so is called
// for each push, and for each proxy twice a push: it only counts.
type watch struct {
	mu        sync.Mutex
	pushes    []*pushed // the oldest first
	now       *pushed   // under way; nil if none is, or if nobody reports it
	differing []*pushed // from what was reported
	courses   map[*served.Subscriber]*course
	behind    int                // how many proxies do not run yet what they were offered, and may soon
	lagging   map[*course]uint64 // whom configuration of a registry was offered that they do not run yet, and may soon, by the push
	registry  uint64             // the number of the push under way, if that brings configuration of a registry and no revision
	refused   map[*part]uint32   // how many proxies do not, because they refuse something
	active    bool               // something has happened since the last call of quiet
	moves     uint64             // counts what happens beside pushes and answers: who joins, leaves, refuses
	lastRan   struct {           // the revision that a proxy came to run last
		text   string
		number int64
	}

	// settled has an element when the last proxy has come to run what it was offered, of those that
	// are not apart.
	settled chan struct{}
}

// keptPushes is how many pushes are remembered, and keptTime for how long.
const (
	keptPushes = 1000
	keptTime   = time.Hour
)

func newWatch() *watch {
	return &watch{courses: map[*served.Subscriber]*course{}, lagging: map[*course]uint64{}, settled: make(chan struct{}, 1)}
}

// Joined implements [push.Watcher].
func (w *watch) Joined(s *served.Subscriber, namespace string) push.Follower {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	w.moves++
	c := &course{watch: w, namespace: namespace}
	c.before = c.room[:0]
	w.courses[s] = c
	return c
}

// courseOf is the course of a proxy, or an empty one if the proxy has just left.
func (w *watch) courseOf(s *served.Subscriber) *course {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.courses[s], &course{watch: w})
}

// Pushing implements [push.Watcher]. A push that brings no new revision is in no count, but who has
// changed configuration in a registry waits for it too.
func (w *watch) Pushing(b push.Begun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	if b.Revision < b.After {
		w.lose(b.Revision)
	}
	if b.Revision <= b.After {
		if b.Configured {
			w.registry = b.Number
		}
		return
	}
	w.now = &pushed{watch: w, revision: b.Revision, after: b.After, begun: b.At, parts: map[string]*part{}}
	w.now.differ()
	w.pushes = append(w.pushes, w.now)
	for len(w.pushes) > keptPushes || b.At.Sub(w.pushes[0].begun) > keptTime {
		w.pushes[0].forgotten = true
		w.pushes = w.pushes[1:]
	}
}

// lose forgets the pushes of revisions after one to which the mesh went back, as when its database was
// restored: others will have their numbers. The caller holds the lock.
func (w *watch) lose(after int64) {
	w.pushes = slices.DeleteFunc(w.pushes, func(p *pushed) bool {
		p.forgotten = p.revision > after
		return p.forgotten
	})
	for _, c := range w.courses {
		was := len(c.before)
		c.forget()
		if was > 0 && len(c.before) == 0 && !c.apart {
			w.behind--
		}
	}
}

// Pushed implements [push.Watcher].
func (w *watch) Pushed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.registry = nil, 0
	if w.behind == 0 && len(w.lagging) == 0 {
		w.tellSettled()
	}
}

// lags notes that a proxy was offered configuration of a registry. The caller holds the lock.
func (w *watch) lags(c *course) {
	if w.registry != 0 && !c.apart {
		w.lagging[c] = w.registry
	}
}

// lagsNoMore notes that a proxy runs a push, or is not waited for. The caller holds the lock.
func (w *watch) lagsNoMore(c *course, runs uint64) {
	offered, lagged := w.lagging[c]
	if !lagged || runs < offered {
		return
	}
	delete(w.lagging, c)
	if len(w.lagging) == 0 && w.registry == 0 && !w.underway() {
		w.tellSettled()
	}
}

// caughtUp notes that a proxy is no longer behind. The caller holds the lock.
func (w *watch) caughtUp() {
	if w.behind--; !w.underway() {
		w.tellSettled()
	}
}

// Refused implements [push.Watcher].
func (w *watch) Refused() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = true
	w.moves++
}

// numberOf is that of a revision that a proxy runs. Proxies come to run the same one after the other.
// The caller holds the lock.
func (w *watch) numberOf(revision string) int64 {
	if w.lastRan.text != revision {
		w.lastRan.text, w.lastRan.number = revision, numberOf(revision)
	}
	return w.lastRan.number
}

func (w *watch) tellSettled() {
	select {
	case w.settled <- struct{}{}:
	default:
	}
}

// movesNow counts who has joined, left or refused anything.
func (w *watch) movesNow() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moves
}

// anyBehind reports whether some proxies do not run yet what they were offered, and may soon.
func (w *watch) anyBehind() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.underway()
}

// underway is anyBehind for callers that hold the lock.
func (w *watch) underway() bool { return w.behind != 0 || w.now != nil }

// onlyAnswered reports whether all proxies run now what they were offered, but for those apart, and
// whether none has joined, left or refused anything since these moves.
func (w *watch) onlyAnswered(moves uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.underway() && w.moves == moves
}

// quiet reports whether nothing has happened since the last call.
func (w *watch) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	active := w.active
	w.active = false
	return !active && w.behind == 0
}

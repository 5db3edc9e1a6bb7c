// Package passage records how a revision passes through a discovery, for its trace: that it waits,
// that a mesh is built of it and pushed, and which proxy is the first and which the last to run it.
package passage

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/kinds"
)

// Recorder records passages. A nil one records nothing.
type Recorder struct {
	tracer *tracing.Tracer
	mesh   func() string // the id of the mesh that is followed
	seed   string        // tells this discovery from others

	mu       sync.Mutex
	arrived  time.Time  // when the oldest batch that waits came; zero if none waits
	taken    *batch     // is being worked on; nil if it is not traced
	now      *rollOut   // the push under way; nil if it is not traced
	rollOuts []*rollOut // that proxies have not come to run yet, the oldest first
	unnamed  unnamed    // streams that were not told of the mesh yet
	closed   bool
}

// New returns a recorder; nil without a tracer.
func New(t *tracing.Tracer, mesh func() string) *Recorder {
	if t == nil {
		return nil
	}
	return &Recorder{tracer: t, mesh: mesh, seed: rand.Text(), unnamed: unnamed{}}
}

// batch is what the next push brings.
type batch struct {
	mesh                  string
	revision              int64
	arrived, taken, built time.Time
	contents              contents
}

// Arrived notes that a batch has come, and waits.
func (r *Recorder) Arrived() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.arrived.IsZero() {
		r.arrived = time.Now()
	}
}

// Taken notes that work has begun on all batches that waited.
func (r *Recorder) Taken(b kinds.Batch) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = &batch{mesh: r.mesh(), revision: b.Revision, arrived: r.arrived, taken: time.Now(), contents: contentsOf(b)}
	r.arrived = time.Time{}
}

// Built notes that the mesh is built that is to be pushed.
func (r *Recorder) Built() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken != nil {
		r.taken.built = time.Now()
	}
}

// Close ends what is under way.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for len(r.rollOuts) > 0 {
		r.end(r.rollOuts[0], time.Now())
	}
}

var _ push.Watcher = (*Recorder)(nil)

// Pushing implements [push.Watcher]. A push without a new revision is no change of anybody's.
func (r *Recorder) Pushing(p push.Begun) {
	after, revision := p.After, p.Revision
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.taken
	r.taken = nil
	if b == nil || b.revision != revision || revision <= after || r.closed {
		return
	}
	if r.tracer.Of(b.mesh, revision) == nil && len(r.tracer.Merged(b.mesh, after, revision)) == 0 {
		return
	}
	if len(r.rollOuts) == mostRollOuts {
		r.end(r.rollOuts[0], time.Now())
	}
	r.now = &rollOut{batch: *b, after: after, pushing: p.At, waiting: map[*served.Subscriber]bool{}}
	r.rollOuts = append(r.rollOuts, r.now)
}

// Refused implements [push.Watcher]. Streams tell of refusals.
func (*Recorder) Refused() {}

// Joined implements [push.Watcher].
func (r *Recorder) Joined(s *served.Subscriber, _ string) push.Follower { return follower{r, s} }

// follower records what becomes of pushes at one proxy.
type follower struct {
	*Recorder

	of *served.Subscriber
}

// Left implements [push.Follower].
func (f follower) Left(*served.Subscriber) { f.each(f.of, func(o *rollOut) { o.away++ }) }

// Ran implements [push.Follower].
func (f follower) Ran(snapshot *served.Snapshot) {
	now := time.Now()
	f.each(f.of, func(o *rollOut) { o.runs(now) }, snapshot.Revision)
}

// Offered implements [push.Follower].
func (f follower) Offered() {
	r, s := f.Recorder, f.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.now.waiting[s] = false
		r.now.concerned++
	}
}

// Pushed implements [push.Watcher].
func (r *Recorder) Pushed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.now.pushed = time.Now()
	}
}

// Done ends what [push.Watcher] began. It is told of what was done by the engine.
func (r *Recorder) Done(pushes func() (push.Queue, []push.Push)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.now
	if r.now = nil; o == nil {
		return
	}
	if _, last := pushes(); len(last) > 0 {
		o.work = last[0].Work
	}
	o.done = true
	o.giveUp = time.AfterFunc(longest, func() { r.overdue(o) })
	r.endIfSettled(o)
}

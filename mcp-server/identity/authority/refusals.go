package authority

import (
	"context"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

// refusalQueue records refused requests. Anybody can cause any number of refusals, and similar ones
// share a row. So one goroutine writes at a time, with one connection to the database, and what
// arrives meanwhile goes into the next batch.
type refusalQueue struct {
	write func(context.Context, []members.Issue) error

	mu      sync.Mutex
	waiting []members.Issue
	written chan struct{} // closed when those waiting have been written
	busy    bool          // a goroutine writes batches
	idle    *sync.Cond    // signalled when busy becomes false
}

func newRefusalQueue(write func(context.Context, []members.Issue) error) *refusalQueue {
	r := &refusalQueue{write: write, written: make(chan struct{})}
	r.idle = sync.NewCond(&r.mu)
	return r
}

// add records a refusal, and waits until it is written or the context ends. If too many wait, it
// drops the refusal.
func (r *refusalQueue) add(ctx context.Context, issue members.Issue) {
	if written := r.queue(issue); written != nil {
		select {
		case <-written:
		case <-ctx.Done():
		}
	}
}

// queue adds a refusal and returns a channel that is closed when it was written; nil if it was
// dropped.
func (r *refusalQueue) queue(issue members.Issue) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxIssues {
		return nil
	}
	issue.At = time.Now() // so that the times are in the order of the queue
	r.waiting = append(r.waiting, issue)
	if !r.busy {
		r.busy = true
		go r.work()
	}
	return r.written
}

// work writes batches until nothing waits. What the database refuses is dropped from the record;
// the log has it.
func (r *refusalQueue) work() {
	for {
		some, written := r.next()
		if len(some) == 0 {
			return
		}
		_ = panics.Try("record", func() error { return r.write(context.Background(), some) }) // bounded by the store's own timeouts
		close(written)
	}
}

func (r *refusalQueue) next() ([]members.Issue, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	some, written := r.waiting, r.written
	r.waiting, r.busy = nil, len(some) > 0
	if r.busy {
		r.written = make(chan struct{})
	} else {
		r.idle.Broadcast()
	}
	return some, written
}

// wait waits until the queue is idle.
func (r *refusalQueue) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.idle.Wait()
	}
}

package authority

import (
	"context"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/panics"
	"github.com/pgmesh/pgmesh/store"
)

// refusals records who was refused. Anybody can cause as many refusals as they like, and similar ones share a row. So one goroutine writes at a time, with
// one connection to the database, and what arrives meanwhile goes into the next batch.
type refusals struct {
	write func(context.Context, []store.Issue) error

	mu      sync.Mutex
	waiting []store.Issue
	written chan struct{} // closed when those that wait have been
	busy    bool
	idle    *sync.Cond // busy has ended
}

func newRefusals(write func(context.Context, []store.Issue) error) *refusals {
	r := &refusals{write: write, written: make(chan struct{})}
	r.idle = sync.NewCond(&r.mu)
	return r
}

// add records a refusal, and waits until it is written or the context ends. If too many wait, it drops the refusal.
func (r *refusals) add(ctx context.Context, issue store.Issue) {
	if written := r.queue(issue); written != nil {
		select {
		case <-written:
		case <-ctx.Done():
		}
	}
}

// queue returns what is closed when the refusal was written; nil if it is forgotten.
func (r *refusals) queue(issue store.Issue) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxIssues {
		return nil
	}
	issue.At = time.Now() // in the order in which they are told
	r.waiting = append(r.waiting, issue)
	if !r.busy {
		r.busy = true
		go r.work()
	}
	return r.written
}

// work writes until nothing waits. What the database does not take is lost: it is in the log.
func (r *refusals) work() {
	for {
		some, written := r.next()
		if len(some) == 0 {
			return
		}
		_ = panics.Try("record", func() error { return r.write(context.Background(), some) }) // bounded by the store's own patience
		close(written)
	}
}

func (r *refusals) next() ([]store.Issue, chan struct{}) {
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

// wait returns when nothing is written any more.
func (r *refusals) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.idle.Wait()
	}
}

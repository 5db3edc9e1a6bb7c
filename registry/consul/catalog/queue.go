package catalog

import (
	"context"
	"net/url"
	"sync"
)

// reading is a service that is to be read, or a node that is to be looked at.
type reading struct {
	name  string
	known uint64 // the index of which nothing more is to be known
	later bool   // it belongs to a look at many
	node  bool
	round int // of the sweep
}

// queue has what is to be read: what has changed, and after it what may have.
type queue struct {
	mu     sync.Mutex
	urgent []reading
	is     map[string]bool // what urgent has
	later  []reading
	filled chan struct{} // closed when there is more
}

func newQueue() *queue { return &queue{is: map[string]bool{}, filled: make(chan struct{})} }

// readNow puts a service before all that can wait. One that is being read is read again.
func (q *queue) readNow(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.is[name] {
		q.is[name] = true
		q.urgent = append(q.urgent, reading{name: name})
		q.wake()
	}
}

// readLater has in the queue what can wait, and nothing else that can. What was waiting keeps its place,
// so that each has its turn however often this is called.
func (q *queue) readLater(all []reading) {
	q.mu.Lock()
	defer q.mu.Unlock()
	places := make(map[reading]int, len(all))
	for i, r := range all {
		places[r.subject()] = i
	}
	next := make([]reading, 0, len(all))
	for _, r := range q.later {
		if i, still := places[r.subject()]; still {
			next = append(next, all[i])
			delete(places, r.subject())
		}
	}
	for _, r := range all {
		if _, left := places[r.subject()]; left {
			next = append(next, r)
		}
	}
	q.later = next
	q.wake()
}

// subject is what is read, whatever is known of it.
func (r reading) subject() reading { return reading{name: r.name, node: r.node} }

func (q *queue) wake() {
	close(q.filled)
	q.filled = make(chan struct{})
}

// next waits for what is to be read next.
func (q *queue) next(ctx context.Context, urgentAlone bool) (reading, error) {
	for {
		next, found, filled := q.take(urgentAlone)
		if found {
			return next, nil
		}
		select {
		case <-filled:
		case <-ctx.Done():
			return reading{}, ctx.Err()
		}
	}
}

func (q *queue) take(urgentAlone bool) (next reading, found bool, filled <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.urgent) > 0:
		next, q.urgent = q.urgent[0], q.urgent[1:]
		delete(q.is, next.name)
	case len(q.later) > 0 && !urgentAlone:
		next, q.later = q.later[0], q.later[1:]
	default:
		return reading{}, false, q.filled
	}
	return next, true, nil
}

// escaped is a name as a part of a path.
func escaped(name string) string { return url.PathEscape(name) }

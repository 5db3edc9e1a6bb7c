package mcp

import (
	"errors"
	"slices"
	"sync"
)

// maxUnsent bounds the queue. A request and an answer for each name of each kind are fewer.
const maxUnsent = 512

var errTooManyUnsent = errors.New("the server goes on sending, of more types than there are, and does not read the answers")

// outbox is the queue of requests to send. put never blocks, because a server may not read before
// the client has read from it. A new acknowledgement replaces an unsent one of the same type.
type outbox struct {
	mu     sync.Mutex
	unsent []*request
	ready  chan struct{}
}

func newOutbox() *outbox { return &outbox{ready: make(chan struct{}, 1)} }

func (o *outbox) put(r *request) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.answers() {
		o.unsent = slices.DeleteFunc(o.unsent, func(u *request) bool { return u.answers() && u.typeURL == r.typeURL })
	}
	if len(o.unsent) == maxUnsent {
		return errTooManyUnsent
	}
	o.unsent = append(o.unsent, r)
	select {
	case o.ready <- struct{}{}:
	default: // already signalled
	}
	return nil
}

// take returns the queue and empties it.
func (o *outbox) take() []*request {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.unsent
	o.unsent = nil
	return taken
}

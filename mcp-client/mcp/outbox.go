package mcp

import (
	"errors"
	"slices"
	"sync"
)

// mostUnsent bounds what waits to be sent: a request and an answer for each name of each kind are fewer.
const mostUnsent = 512

var errTooManyUnsent = errors.New("the server goes on sending, of more types than there are, and does not read the answers")

// outbox has what is to be sent. Putting something there never blocks, since a server may not read on before it was read from:
// an answer that is not sent yet gives way to the next for the same type.
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
	if len(o.unsent) == mostUnsent {
		return errTooManyUnsent
	}
	o.unsent = append(o.unsent, r)
	select {
	case o.ready <- struct{}{}:
	default: // it is known that there is something
	}
	return nil
}

// take empties the outbox.
func (o *outbox) take() []*request {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.unsent
	o.unsent = nil
	return taken
}

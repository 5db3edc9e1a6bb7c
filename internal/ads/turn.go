package ads

import (
	"context"
	"sync/atomic"
	"time"
)

// turn is a stream's place among those that push. Who sends to a client that does not read may be held up for ever, and has to give way.
type turn struct {
	limits *bounds
	has    atomic.Bool
	giving *time.Timer // gives the place back while the stream is held up
}

// longestSend is how long a stream may keep its place while it sends. Whatever a client that reads is sent is on its way by then.
const longestSend = 50 * time.Millisecond

// take waits for a place. It returns false if the context has ended.
func (t *turn) take(ctx context.Context) bool {
	if t.limits.pushes == nil {
		return true
	}
	select {
	case t.limits.pushes <- struct{}{}:
		t.has.Store(true)
		return true
	default:
	}
	began := time.Now()
	select {
	case t.limits.pushes <- struct{}{}:
		t.has.Store(true)
		t.limits.observer.Limited(PushLimit, time.Since(began), false)
		return true
	case <-ctx.Done():
		return false
	}
}

// giveBack gives the place back, if the stream still has it.
func (t *turn) giveBack() {
	if t.has.CompareAndSwap(true, false) {
		<-t.limits.pushes
	}
}

// whileSending does something that may be held up by the client.
func (t *turn) whileSending(send func() error) error {
	if !t.has.Load() {
		return send()
	}
	if t.giving == nil {
		t.giving = time.AfterFunc(longestSend, t.giveBack)
	} else {
		t.giving.Reset(longestSend)
	}
	defer t.giving.Stop()
	return send()
}

package ads

import (
	"context"
	"sync/atomic"
	"time"
)

// turn is a stream's slot among those that push at once. A stream whose client does not read may
// block forever while sending, so it must give the slot back.
type turn struct {
	limits *bounds
	has    atomic.Bool
	giving *time.Timer // gives the slot back while a send blocks
}

// maxSendTime is how long a stream may keep its slot while it sends. A send to a client that reads
// is done by then.
const maxSendTime = 50 * time.Millisecond

// take waits for a slot. It returns false if the context ends first.
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

// giveBack gives the slot back, if the stream still has it.
func (t *turn) giveBack() {
	if t.has.CompareAndSwap(true, false) {
		<-t.limits.pushes
	}
}

// whileSending runs send, which may block, and gives the slot back if it takes too long.
func (t *turn) whileSending(send func() error) error {
	if !t.has.Load() {
		return send()
	}
	if t.giving == nil {
		t.giving = time.AfterFunc(maxSendTime, t.giveBack)
	} else {
		t.giving.Reset(maxSendTime)
	}
	defer t.giving.Stop()
	return send()
}

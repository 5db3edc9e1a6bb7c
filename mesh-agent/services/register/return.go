package register

import (
	"context"
	"errors"
	"fmt"
)

// returning is what Returned waits for, after a drain was taken back. Agent.mu guards it. A nil one has
// nothing to wait for.
type returning struct {
	over   chan struct{} // closed when mcp-server knows
	cannot chan struct{} // closed when it is known that it cannot be told now
	err    error         // why, and when it is told
}

func newReturning() *returning {
	return &returning{over: make(chan struct{}), cannot: make(chan struct{})}
}

// fail records why mcp-server cannot be told now, and when it will be.
func (r *returning) fail(why, until string) {
	if r == nil {
		return
	}
	if r.err == nil {
		close(r.cannot)
	}
	r.err = fmt.Errorf("%s; it is told as soon as %s", why, until)
}

func (r *returning) failure() error {
	if r == nil {
		return nil
	}
	return r.err
}

// Returned waits until mcp-server knows that the machine does not drain any more. It returns why it does
// not yet, as soon as that is known. An earlier discovery does not say what mcp-server knows, and is
// not waited for.
func (a *Agent) Returned(ctx context.Context) error {
	a.mu.Lock()
	r := a.returning
	a.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.over:
		return nil
	case <-a.done: // it has left
		return nil
	case <-r.cannot:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.returning != r:
		return nil
	case r.err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.fail(errUnconfirmed.Error(), "mcp-server registers machines again")
	case r.err == nil:
		return ctx.Err()
	}
	return r.err
}

// returned records that mcp-server knows that no service drains, or that nobody is to wait for that any
// more. The caller holds mu.
func (a *Agent) returned() {
	if a.returning != nil {
		close(a.returning.over)
		a.returning = nil
	}
}

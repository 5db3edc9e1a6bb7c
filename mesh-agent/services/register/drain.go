package register

import (
	"context"
	"errors"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

var errNotTold = errors.New("the machine is not connected to discovery: others cannot be told to send nothing here")

var errUnconfirmed = errors.New("discovery has not said in time that mcp-server knows of it: the log of discovery, and /readyz of mcp-server, say what they wait for")

var errReturned = errors.New("the drain was taken back meanwhile")

// drain is what Withdraw waits for. Agent.mu guards it.
type drain struct {
	over   chan struct{} // closed when mcp-server knows that all services drain, or when that has failed
	err    error
	detail string // how far it has come
	// cannot is closed when discovery has said that mcp-server cannot be told now, and why is what it
	// said last.
	cannot chan struct{}
	why    string
}

func newDrain() *drain { return &drain{over: make(chan struct{}), cannot: make(chan struct{})} }

func (d *drain) end(err error) {
	select {
	case <-d.over:
	default:
		d.err = err
		close(d.over)
	}
}

// Withdraw has others send nothing here any more, and waits until mcp-server knows. The entries stay
// until the machine leaves: without them its Envoy would not know what to do with requests that are
// on their way. If Withdraw fails, the machine is used as before.
func (a *Agent) Withdraw(ctx context.Context) error { return a.withdraw(ctx, false) }

// TryWithdraw is Withdraw, but fails as soon as discovery says that mcp-server cannot be told now.
func (a *Agent) TryWithdraw(ctx context.Context) error { return a.withdraw(ctx, true) }

func (a *Agent) withdraw(ctx context.Context, impatient bool) error {
	d, err := a.beginDrain()
	if err != nil {
		return err
	}
	cannot := d.cannot
	if !impatient {
		cannot = nil
	}
	select {
	case <-d.over:
		return d.err
	case <-a.done: // it has left
		return nil
	case <-cannot:
		return a.failDrain(d, nil)
	case <-ctx.Done():
		return a.failDrain(d, ctx.Err())
	}
}

// Withdrawn makes this the agent of a machine that an earlier agent has withdrawn. Call it before
// Run.
func (a *Agent) Withdrawn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain = newDrain()
	a.drain.end(nil)
}

// Return has others send requests here again, as far as the services are well. Without a stream it
// is said by the next.
func (a *Agent) Return() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drain != nil {
		a.drain.end(errReturned)
		a.drain, a.returning = nil, newReturning()
		if a.disconnected != "" {
			a.returning.fail(a.disconnected, "this machine is connected to be registered again")
		}
		if a.older {
			a.returned()
		}
		wake(a.reportDue)
	}
}

// Tell tells the mesh how far the drain has come.
func (a *Agent) Tell(detail string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drain != nil && a.drain.detail != detail {
		a.drain.detail = detail
		wake(a.reportDue)
	}
}

// beginDrain has the machine drain, or joins whoever has begun that.
func (a *Agent) beginDrain() (*drain, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drain == nil {
		if a.disconnected != "" {
			return nil, errNotTold
		}
		a.drain = newDrain()
		a.returned() // whoever waits for the opposite waits in vain
		wake(a.reportDue)
	}
	return a.drain, nil
}

// drained records that mcp-server knows that all services drain. The caller holds mu.
func (a *Agent) drained() {
	if a.drain != nil {
		a.drain.end(nil)
	}
}

// failDrain takes back a drain that was not confirmed, and says why it was not.
func (a *Agent) failDrain(d *drain, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case d.why != "":
		err = errors.New(d.why)
	case errors.Is(err, context.DeadlineExceeded):
		err = errUnconfirmed
	}
	a.undoDrain(d, err)
	if d.err == nil { // it was confirmed just now
		return nil
	}
	return err
}

// untold records that mcp-server cannot be told now what was said last. The caller holds mu.
func (a *Agent) untold(why string) {
	if d := a.drain; d != nil {
		if d.why == "" {
			close(d.cannot)
		}
		d.why = why
	}
	a.returning.fail(why, "mcp-server registers machines again")
}

// undoDrain takes a drain back that nobody knows of yet. The caller holds mu.
func (a *Agent) undoDrain(d *drain, why error) {
	if d == nil || a.drain != d {
		return
	}
	if d.end(why); d.err != nil {
		a.drain = nil
		wake(a.reportDue)
	}
}

// told is the health of a service for discovery. The caller holds mu.
func (a *Agent) told(health machinev1.Health, detail string) (machinev1.Health, string) {
	if a.drain != nil {
		return machinev1.Health_HEALTH_DRAINING, a.drain.detail
	}
	return health, detail
}

package register

import (
	"context"
	"errors"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

var errNotTold = errors.New("the machine is not connected to discovery: others cannot be told to send nothing here")

var errReturned = errors.New("the drain was taken back meanwhile")

// drain is what Withdraw waits for. Agent.mu guards it.
type drain struct {
	over   chan struct{} // closed when mcp-server knows that all services drain, or when that has failed
	err    error
	detail string // how far it has come
}

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
func (a *Agent) Withdraw(ctx context.Context) error {
	d, err := a.beginDrain()
	if err != nil {
		return err
	}
	select {
	case <-d.over:
		return d.err
	case <-a.done: // it has left
		return nil
	case <-ctx.Done():
		a.failDrain(d, ctx.Err())
		return ctx.Err()
	}
}

// Withdrawn makes this the agent of a machine that an earlier agent has withdrawn. Call it before
// Run.
func (a *Agent) Withdrawn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain = &drain{over: make(chan struct{})}
	a.drain.end(nil)
}

// Return has others send requests here again, as far as the services are well. Without a stream it
// is said by the next.
func (a *Agent) Return() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drain != nil {
		a.drain.end(errReturned)
		a.drain = nil
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
		a.drain = &drain{over: make(chan struct{})}
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

func (a *Agent) failDrain(d *drain, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.undoDrain(d, why)
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

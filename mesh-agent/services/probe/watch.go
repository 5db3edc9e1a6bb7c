package probe

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Watch runs a probe until the context ends. It calls tell when enough results in a row agree, and
// again each time that changes: with nil, or the last error.
func Watch(ctx context.Context, p *machinev1.Probe, tell func(wrong error)) {
	t := TimingOf(p)
	if !wait.For(ctx, t.Delay) {
		return
	}
	tick := time.NewTicker(t.Period)
	defer tick.Stop()
	var c streak
	for {
		err := Once(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if c.add(err == nil, t) {
			tell(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// streak counts equal results in a row.
type streak struct {
	reported, healthy bool // whether a state was reported, and which
	last              bool // the last result
	length            uint32
}

// add counts a result, and reports whether the state changed with it.
func (c *streak) add(well bool, t Timing) (news bool) {
	if c.length == 0 || c.last != well {
		c.last, c.length = well, 0
	}
	c.length++
	needed := t.Failure
	if well {
		needed = t.Success
	}
	if c.length < needed || c.reported && c.healthy == well {
		return false
	}
	c.reported, c.healthy = true, well
	return true
}

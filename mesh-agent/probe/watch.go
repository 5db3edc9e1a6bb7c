package probe

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/internal/wait"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Watch asks a service again and again until the context ends, and tells whether it is well once enough answers in a row say so, and each time that
// changes: nil, or what was wrong last.
func Watch(ctx context.Context, p *machinev1.Probe, tell func(wrong error)) {
	t := TimingOf(p)
	if !wait.For(ctx, t.Delay) {
		return
	}
	tick := time.NewTicker(t.Period)
	defer tick.Stop()
	var c count
	for {
		err := Once(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if c.take(err == nil, t) {
			tell(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// count is how many answers in a row were alike.
type count struct {
	known, well bool // whether anything was told, and what
	same        bool // what the last answers said
	row         uint32
}

// take counts an answer, and tells whether it is news by now.
func (c *count) take(well bool, t Timing) (news bool) {
	if c.row == 0 || c.same != well {
		c.same, c.row = well, 0
	}
	c.row++
	needed := t.Failure
	if well {
		needed = t.Success
	}
	if c.row < needed || c.known && c.well == well {
		return false
	}
	c.known, c.well = true, well
	return true
}

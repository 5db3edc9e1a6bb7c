package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// Postgres' processor time is counted in hundredths of a second, so the cost of a change is
// measured over many.
const (
	idleFor     = 10 * time.Second
	changesCost = 200
)

// databaseCost is the processor time of Postgres with all its sessions.
type databaseCost struct {
	IdleSecond    time.Duration // while the control plane runs without changes
	Change, Floor time.Duration // more than while idle
}

// costOf measures a server's processor time: while idle, for changes of the product, and for those
// of the floor.
func costOf(ctx context.Context, pid int, product, floor func(context.Context, int) (sample, error)) (c databaseCost, err error) {
	before := usage.TreeCPUOf(pid)
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return c, ctx.Err()
	}
	c.IdleSecond = (usage.TreeCPUOf(pid) - before) / (idleFor / time.Second)
	if c.Change, err = c.ofEach(ctx, pid, product); err != nil {
		return c, err
	}
	c.Floor, err = c.ofEach(ctx, pid, floor)
	return c, err
}

func (c databaseCost) ofEach(ctx context.Context, pid int, change func(context.Context, int) (sample, error)) (time.Duration, error) {
	before, begin := usage.TreeCPUOf(pid), time.Now()
	for i := range changesCost {
		if _, err := change(ctx, -2-i); err != nil { // numbers not used by earlier changes
			return 0, err
		}
	}
	idle := time.Duration(time.Since(begin).Seconds() * float64(c.IdleSecond))
	return (usage.TreeCPUOf(pid) - before - idle) / changesCost, nil
}

func (c databaseCost) report(w io.Writer) {
	fmt.Fprintf(w, "Processor time of Postgres: %s a change (floor: %s), %s a second while nothing changes (aim: under %s, %s)\n\n",
		millis(c.Change), millis(c.Floor), millis(c.IdleSecond), millis(aimIdleDatabase), met(c.IdleSecond < aimIdleDatabase))
}

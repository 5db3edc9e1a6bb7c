package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pgmesh/pgmesh/bench/machine"
)

// Postgres's clock ticks a hundred times a second, so what a change costs is measured over many.
const (
	idleFor     = 10 * time.Second
	changesCost = 200
)

// databaseCost is the processor time that Postgres takes, with all its sessions.
type databaseCost struct {
	IdleSecond    time.Duration // while the control plane runs and nobody changes anything
	Change, Floor time.Duration // beyond what it takes while idle
}

// costOf measures a server by its process: first while nothing happens, then in changes of one sort, and of the other.
func costOf(ctx context.Context, pid int, product, floor func(context.Context, int) (sample, error)) (c databaseCost, err error) {
	before := machine.TreeCPUOf(pid)
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return c, ctx.Err()
	}
	c.IdleSecond = (machine.TreeCPUOf(pid) - before) / (idleFor / time.Second)
	if c.Change, err = c.ofEach(ctx, pid, product); err != nil {
		return c, err
	}
	c.Floor, err = c.ofEach(ctx, pid, floor)
	return c, err
}

func (c databaseCost) ofEach(ctx context.Context, pid int, change func(context.Context, int) (sample, error)) (time.Duration, error) {
	before, begin := machine.TreeCPUOf(pid), time.Now()
	for i := range changesCost {
		if _, err := change(ctx, -2-i); err != nil { // numbers that no change before it had
			return 0, err
		}
	}
	idle := time.Duration(time.Since(begin).Seconds() * float64(c.IdleSecond))
	return (machine.TreeCPUOf(pid) - before - idle) / changesCost, nil
}

func (c databaseCost) report(w io.Writer) {
	fmt.Fprintf(w, "Processor time of Postgres: %s a change (floor: %s), %s a second while nothing changes (aim: under %s, %s)\n\n",
		millis(c.Change), millis(c.Floor), millis(c.IdleSecond), millis(aimIdleDatabase), met(c.IdleSecond < aimIdleDatabase))
}

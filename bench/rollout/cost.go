package main

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
)

// turn is what was measured while reports were on, or off.
type turn struct {
	reports bool
	last    []time.Duration // from the commit to the last proxy
	each    used            // per change
}

// cost measures changes with reports and without, in turns, at two rates.
func cost(ctx context.Context, c *control, r *report) error {
	if err := c.describe(ctx, c.services); err != nil {
		return err
	}
	var single, steady []turn
	for n := range 2 * c.turns {
		reports := onInTurn(n)
		err := c.with(ctx, reports, c.proxies, func(all *crowd) error {
			one, err := c.oneByOne(ctx, all, reports)
			if err != nil {
				return err
			}
			many, err := c.atRate(ctx, all, reports, c.lasting)
			single, steady = append(single, one), append(steady, many)
			return err
		})
		if err != nil {
			return err
		}
		sayf("turn %d of %d", n+1, 2*c.turns)
	}
	r.titlef("Cost of a change, %d services and %d proxies, %d turns each with reports and without", c.services, c.proxies, c.turns)
	r.costs("one after the other", single)
	r.costs(ratef(c.rate), steady)
	return nil
}

// onInTurn changes which is first, so that what warms up counts for both.
func onInTurn(n int) bool { return (n%4 == 0) || (n%4 == 3) }

// warmups are changes that are made before the measured ones.
const warmups = 5

// oneByOne makes changes, each when the one before is everywhere.
func (c *control) oneByOne(ctx context.Context, all *crowd, reports bool) (turn, error) {
	t := turn{reports: reports}
	var before used
	for i := range warmups + c.changes {
		if i == warmups {
			before = c.used(reports)
		}
		timing.Settle()
		awaited, start, err := c.write(ctx, all)
		if err != nil {
			return t, err
		}
		last, err := awaited.wait(ctx)
		if err != nil {
			return t, err
		}
		if i >= warmups {
			t.last = append(t.last, last.Sub(start))
		}
	}
	t.each = c.used(reports).since(before).per(c.changes)
	return t, nil
}

// atRate makes changes at a rate for a while.
func (c *control) atRate(ctx context.Context, all *crowd, reports bool, lasting time.Duration) (turn, error) {
	t := turn{reports: reports}
	tick := time.NewTicker(time.Second / time.Duration(c.rate))
	defer tick.Stop()
	var awaited []*target
	var starts []time.Time
	before := c.used(reports)
	for begun := time.Now(); len(awaited) == 0 || time.Since(begun) < lasting; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return t, ctx.Err()
		}
		one, start, err := c.write(ctx, all)
		if err != nil {
			return t, err
		}
		awaited, starts = append(awaited, one), append(starts, start)
	}
	for i, one := range awaited {
		last, err := one.wait(ctx)
		if err != nil {
			return t, err
		}
		t.last = append(t.last, last.Sub(starts[i]))
	}
	t.each = c.used(reports).since(before).per(len(awaited))
	return t, nil
}

func (u used) per(n int) used {
	of := func(d time.Duration) time.Duration { return d / time.Duration(n) }
	return used{of(u.discovery), of(u.server), of(u.postgres)}
}

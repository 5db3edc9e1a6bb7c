package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// restarts measures how soon mesh.proxies is exact when discovery was killed and all proxies have
// come back.
func restarts(ctx context.Context, c *control, r *report) error {
	if err := c.describe(ctx, c.manyServices); err != nil {
		return err
	}
	var back, exact []time.Duration
	d := c.discovery[true]
	err := c.with(ctx, true, c.many, func(all *crowd) error {
		for n := range c.restarts {
			start, err := d.again(ctx)
			if err != nil {
				return err
			}
			last, until, err := c.exactAgain(ctx, d, all, start)
			if err != nil {
				return err
			}
			back, exact = append(back, last.Sub(start)), append(exact, until.Sub(last))
			sayf("restart %d of %d", n+1, c.restarts)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.titlef("Discovery is killed and starts again, %d services and %d proxies, %d times", c.manyServices, c.many, c.restarts)
	r.times("from its start to the last proxy's return", back)
	r.times("from then until mesh.proxies shows all exactly", exact)
	r.aim("at most 3 s, each time", sorted(exact)[len(exact)-1] <= 3*time.Second)
	return nil
}

// again kills the discovery, and starts it.
func (d *discovery) again(ctx context.Context) (start time.Time, err error) {
	d.Kill()
	wait.For(ctx, time.Second)
	start = time.Now()
	if err := d.Start(); err != nil {
		return start, err
	}
	return start, d.Ready(ctx)
}

// lookInterval lies between two looks at mesh.proxies.
const lookInterval = 20 * time.Millisecond

// exactAgain returns when the last proxy was back, and when mesh.proxies showed all of them as they
// are: connected since the start, and at the newest revision.
func (c *control) exactAgain(ctx context.Context, d *discovery, all *crowd, start time.Time) (last, exact time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	n := 0
	for wait.For(ctx, lookInterval) {
		exact = time.Now()
		if n, last, err = c.synced(ctx, d, start); err != nil {
			return last, exact, err
		}
		if n == all.size {
			if heard := all.quietSince(); heard.After(last) {
				last = heard
			}
			return last, later(exact, last), nil
		}
	}
	return last, exact, fmt.Errorf("%d of %d proxies are shown to be back: %w", n, all.size, ctx.Err())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// synced counts the proxies that have come to the discovery since a time and are shown to run the
// newest revision, and says when the last of them came.
func (c *control) synced(ctx context.Context, d *discovery, since time.Time) (n int, last time.Time, err error) {
	err = c.db.QueryRow(ctx, `SELECT count(*), coalesce(max(connected), $2) FROM mesh.proxies
		WHERE state = 'synced' AND discovery = $1 AND connected >= $2 AND runs = mesh.newest_revision()`, d.name, since).Scan(&n, &last)
	return n, last, err
}

// shown waits until all proxies are shown that are connected to a discovery.
func (c *control) shown(ctx context.Context, d *discovery, proxies int) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for wait.For(ctx, lookInterval) {
		if n, _, err := c.synced(ctx, d, time.Unix(0, 0)); err != nil || n == proxies {
			return err
		}
	}
	return fmt.Errorf("not all proxies of %s are shown: %w", d.name, ctx.Err())
}

package main

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// written is what Postgres has done so far.
type written struct {
	at      time.Time
	commits float64 // transactions
	wal     float64 // bytes
	reports float64 // calls of mesh_internal.take_report
	rows    float64 // written to tables of reports
	cpu     time.Duration
}

// written reads the counters, a moment after what is to be in them.
func (c *control) written(ctx context.Context) (w written, err error) {
	w.at, w.cpu = time.Now(), usage.TreeCPUOf(c.postgres.PID())
	if !wait.For(ctx, c.flush) {
		return w, ctx.Err()
	}
	err = c.db.QueryRow(ctx, `SELECT
		(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8,
		(pg_current_wal_insert_lsn() - '0/0')::float8,
		coalesce((SELECT calls FROM pg_stat_user_functions WHERE schemaname = 'mesh_internal' AND funcname = 'take_report'), 0)::float8,
		(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE schemaname = 'mesh_internal' AND relname ~ '^report')::float8`).
		Scan(&w.commits, &w.wal, &w.reports, &w.rows)
	return w, err
}

// second is what Postgres did in a second, on average.
type second struct {
	reports                      bool
	commits, wal, messages, rows float64
	cpu, last                    time.Duration // and how late the last proxy had a change, half of the times
}

func (w written) since(before written, reports bool) second {
	seconds := w.at.Sub(before.at).Seconds()
	return second{
		reports: reports, commits: (w.commits - before.commits) / seconds, wal: (w.wal - before.wal) / seconds,
		messages: (w.reports - before.reports) / seconds, rows: (w.rows - before.rows) / seconds, cpu: time.Duration(float64(w.cpu-before.cpu) / seconds),
	}
}

// load measures what Postgres does while many proxies take changes at a rate.
func load(ctx context.Context, c *control, r *report) error {
	seconds, err := c.seconds(ctx, func(all *crowd, reports bool) (time.Duration, error) {
		t, err := c.atRate(ctx, all, reports, c.loadFor)
		return timing.Percentile(sorted(t.last), 50), err
	})
	if err != nil {
		return err
	}
	r.titlef("Postgres, %d proxies of %d services take %s, a second, %d turns each", c.many, c.manyServices, ratef(c.rate), c.loadTurns)
	r.seconds(seconds)
	r.aim("messages of reports, which are transactions, at most 10 a second", median(seconds, true, second.ofMessages) <= 10)
	more := median(seconds, true, second.ofCPU) - median(seconds, false, second.ofCPU)
	r.aim("at most 1 % of a core more for Postgres", more <= 10)
	return nil
}

// idle measures what Postgres does while nothing happens.
func idle(ctx context.Context, c *control, r *report) error {
	seconds, err := c.seconds(ctx, func(*crowd, bool) (time.Duration, error) {
		wait.For(ctx, c.idleFor)
		return 0, ctx.Err()
	})
	if err != nil {
		return err
	}
	r.titlef("Postgres, %d proxies and nothing happens, a second, %d turns each", c.many, c.loadTurns)
	r.seconds(seconds)
	r.aim("no row of reports is written while nothing happens", median(seconds, true, second.ofRows) == 0)
	return nil
}

// seconds measures what Postgres does meanwhile, with reports and without, in turns.
func (c *control) seconds(ctx context.Context, meanwhile func(all *crowd, reports bool) (last time.Duration, err error)) (all []second, err error) {
	if err := c.describe(ctx, c.manyServices); err != nil {
		return nil, err
	}
	for n := range 2 * c.loadTurns {
		reports := onInTurn(n)
		err := c.with(ctx, reports, c.many, func(proxies *crowd) error {
			wait.For(ctx, c.calm)
			before, err := c.written(ctx)
			if err != nil {
				return err
			}
			before.at, before.cpu = time.Now(), usage.TreeCPUOf(c.postgres.PID())
			last, err := meanwhile(proxies, reports)
			if err != nil {
				return err
			}
			after, err := c.written(ctx)
			one := after.since(before, reports)
			one.last = last
			all = append(all, one)
			return err
		})
		if err != nil {
			return nil, err
		}
		sayf("turn %d of %d", n+1, 2*c.loadTurns)
	}
	return all, nil
}

func (s second) ofCommits() float64  { return s.commits }
func (s second) ofWAL() float64      { return s.wal / 1000 }
func (s second) ofMessages() float64 { return s.messages }
func (s second) ofRows() float64     { return s.rows }
func (s second) ofLast() float64     { return millis(s.last) }
func (s second) ofCPU() float64      { return millis(s.cpu) }

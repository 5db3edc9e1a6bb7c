package main

import (
	"context"
	"sync"
	"time"
)

// meter reads every second how much was written to the database.
type meter struct {
	control *control

	mu      sync.Mutex
	seconds []second
	over    time.Time // when the machines came to rest
}

// second is what was written in one second.
type second struct {
	at                   time.Time
	rows, commits, bytes float64
}

func newMeter(c *control) *meter { return &meter{control: c} }

// count is what was written since the server began to count.
type count struct {
	at                   time.Time
	rows, commits, bytes float64
}

func (m *meter) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var before count
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now, err := m.read(ctx)
		if err != nil {
			before = count{}
			continue
		}
		if took := now.at.Sub(before.at).Seconds(); !before.at.IsZero() && now.rows >= before.rows && now.commits >= before.commits {
			m.mu.Lock()
			m.seconds = append(m.seconds, second{now.at, (now.rows - before.rows) / took, (now.commits - before.commits) / took, (now.bytes - before.bytes) / took})
			m.mu.Unlock()
		}
		before = now
	}
}

// read reads the server's counters. Postgres adds a session's work about once a second, or when the
// session is idle.
func (m *meter) read(ctx context.Context) (c count, err error) {
	err = m.control.db.QueryRow(ctx, `SELECT
		(SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables)::float8,
		(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8,
		(pg_current_wal_lsn() - '0/0')::float8`).Scan(&c.rows, &c.commits, &c.bytes)
	c.at = time.Now()
	return c, err
}

// calm marks the time from which the machines rest.
func (m *meter) calm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = time.Now()
}

// busy returns the seconds in which machines came and went.
func (m *meter) busy() (all []second) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.seconds {
		if s.at.Before(m.over) {
			all = append(all, s)
		}
	}
	return all
}

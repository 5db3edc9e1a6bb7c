// Package watchdog looks for database sessions that block the mesh: by a lock, or by a transaction
// that keeps the notification queue from emptying. It reports them in the log, in metrics and on
// /readyz, and can end them.
//
// In a quiet mesh it polls every few seconds. Once a statement of the server waits, it polls at
// once and then every second.
package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/store"
)

// Source lists and ends sessions.
type Source interface {
	Blockers(ctx context.Context) ([]store.Blocker, error)
	EndBlocker(ctx context.Context, pid int32, transaction string) error
	QueueUsage(ctx context.Context) (float64, error)
}

// Options of a watchdog. The zero value is right for production.
type Options struct {
	// EndAfter is how long a session may block others before it is ended; 0 means for ever.
	// Sessions of roles that may act as servers are never ended.
	EndAfter time.Duration
	// SlowInterval is the polling interval while nobody waits, and FastInterval while somebody
	// does; 10 s and 1 s if 0.
	SlowInterval, FastInterval time.Duration
	// ReportAfter is how long a session must block others before it is reported; 2 s if 0. Short
	// waits are normal.
	ReportAfter time.Duration
}

// Watchdog looks for sessions that block others.
type Watchdog struct {
	source  Source
	options Options
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{}

	mu        sync.Mutex
	sightings map[key]*sighting
}

// key identifies a transaction and why it blocks.
type key struct {
	pid                 int32
	transaction, reason string
}

// sighting is a blocking session, as of the last poll.
type sighting struct {
	store.Blocker

	first    time.Time
	reported bool
	ended    bool
}

// New returns a watchdog; Run starts it.
func New(s Source, o Options, log *slog.Logger, r prometheus.Registerer) *Watchdog {
	o.SlowInterval, o.FastInterval, o.ReportAfter = cmp.Or(o.SlowInterval, 10*time.Second), cmp.Or(o.FastInterval, time.Second), cmp.Or(o.ReportAfter, 2*time.Second)
	return &Watchdog{source: s, options: o, log: log, metrics: newMetrics(r), wake: make(chan struct{}, 1), sightings: map[key]*sighting{}}
}

// Wake makes it poll now. It does not block.
func (w *Watchdog) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run polls until the context ends.
func (w *Watchdog) Run(ctx context.Context) error {
	for {
		pause := w.options.SlowInterval
		if w.check(ctx) {
			pause = w.options.FastInterval
		}
		timer := time.NewTimer(pause)
		woken := w.wake
		if pause == w.options.FastInterval {
			woken = nil // it polls often enough
		}
		select {
		case <-timer.C:
		case <-woken:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// check polls once, and reports whether a session needs watching closely.
func (w *Watchdog) check(ctx context.Context) (watch bool) {
	list, err := w.source.Blockers(ctx)
	if err == nil {
		var usage float64
		if usage, err = w.source.QueueUsage(ctx); err == nil {
			w.metrics.usage.Set(usage)
		}
	}
	if err != nil {
		w.log.Debug("cannot look for sessions that others wait for", "error", err)
		return false
	}
	for _, s := range w.update(list) {
		w.report(s)
		if w.overdue(s) {
			w.end(ctx, s)
		}
	}
	return slices.ContainsFunc(list, func(b store.Blocker) bool { return b.Reason != idle })
}

// idle is a reason that does not need watching closely.
const idle = "idle"

// update replaces the known sessions, logs those that are gone, and returns the current ones.
func (w *Watchdog) update(list []store.Blocker) []*sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[key]*sighting{}
	var there []*sighting
	for _, b := range list {
		k := key{b.PID, b.Transaction, b.Reason}
		s := &sighting{Blocker: b, first: time.Now()}
		if before := w.sightings[k]; before != nil {
			s.first, s.reported, s.ended = before.first, before.reported, before.ended
		}
		now[k] = s
		there = append(there, s)
	}
	for k, s := range w.sightings {
		if now[k] == nil && s.reported {
			w.log.Info("a session of the database holds up others no more", "pid", s.PID, "role", s.Role, "reason", s.Reason, "after", time.Since(s.first).Round(time.Second))
		}
	}
	w.sightings = now
	w.metrics.show(there)
	return there
}

// report logs once that a session blocks others.
func (w *Watchdog) report(s *sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.reported || s.waited() < w.options.ReportAfter {
		return
	}
	s.reported = true
	w.log.Warn("a session of the database holds up others: have it commit, or end it (mcp-client blockers end PID)", "reason", s.Reason, "pid", s.PID, "role", s.Role,
		"database", s.Database, "application", s.Application, "address", s.Client, "state", s.State, "since", s.Since, "waiting", len(s.Blocks), "query", s.Query)
}

// waited returns for how long the session is known to block others.
func (s *sighting) waited() time.Duration { return time.Since(s.first) }

func (w *Watchdog) overdue(s *sighting) bool {
	return w.options.EndAfter > 0 && s.waited() >= w.options.EndAfter && s.Reason != idle && !s.Server && !s.ended
}

// end ends a session. It tries once, because the reason for a failure would stay.
func (w *Watchdog) end(ctx context.Context, s *sighting) {
	err := w.source.EndBlocker(ctx, s.PID, s.Transaction)
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ended = true
	if err != nil {
		w.log.Error("cannot end a session that keeps the mesh waiting", "pid", s.PID, "role", s.Role, "error", err)
		return
	}
	w.metrics.ended.Inc()
	w.log.Warn("ended a session that kept the mesh waiting", "pid", s.PID, "role", s.Role, "after", s.waited().Round(time.Second))
}

// About describes a session that blocks the mesh; "" if there is none.
func (w *Watchdog) About() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, reason := range []string{"lock", "queue"} {
		for _, s := range w.sightings {
			if !s.reported || s.Reason != reason {
				continue
			}
			if reason == "lock" {
				return fmt.Sprintf("the %s is in the way: %d sessions wait for it (mcp-client blockers end %d ends it)", s.String(), len(s.Blocks), s.PID)
			}
			return fmt.Sprintf("the %s may be in the way: the queue of notifications does not empty (mcp-client blockers lists who else it can be)", s.String())
		}
	}
	return ""
}

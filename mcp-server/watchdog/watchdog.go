// Package watchdog looks for sessions of the database that keep the mesh waiting: by a lock, or by a transaction behind which notifications pile
// up. It names them in the log, in metrics and on /readyz, and ends them if it is told to.
//
// In a quiet mesh it looks every few seconds. It looks at once, and every second, from when a statement of the server waits.
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

// Source is where sessions are looked for.
type Source interface {
	Blockers(ctx context.Context) ([]store.Blocker, error)
	EndBlocker(ctx context.Context, pid int32, transaction string) error
	QueueUsage(ctx context.Context) (float64, error)
}

// Options of a watchdog. The zero value is right for production.
type Options struct {
	// EndAfter is how long a session may keep others waiting before it is ended; 0: for ever. Sessions of roles that may act as servers are
	// never ended.
	EndAfter time.Duration
	// Slow is how often it looks while nobody waits, and Fast while somebody does; 10 s and 1 s if 0.
	Slow, Fast time.Duration
	// Patience is how long somebody waits before it is told: transactions that meet wait for a moment on every busy day; 2 s if 0.
	Patience time.Duration
}

// Watchdog looks for sessions that keep others waiting.
type Watchdog struct {
	source  Source
	options Options
	log     *slog.Logger
	metrics *metrics
	woken   chan struct{}

	mu    sync.Mutex
	known map[key]*seen
}

// key is a transaction of a session, and what is wrong with it.
type key struct {
	pid                 int32
	transaction, reason string
}

// seen is one that was there at the last look.
type seen struct {
	store.Blocker

	first time.Time
	told  bool
	ended bool
}

// New returns a watchdog, which looks while Run runs.
func New(s Source, o Options, log *slog.Logger, r prometheus.Registerer) *Watchdog {
	o.Slow, o.Fast, o.Patience = cmp.Or(o.Slow, 10*time.Second), cmp.Or(o.Fast, time.Second), cmp.Or(o.Patience, 2*time.Second)
	return &Watchdog{source: s, options: o, log: log, metrics: newMetrics(r), woken: make(chan struct{}, 1), known: map[key]*seen{}}
}

// Wake has it look now. It does not block.
func (w *Watchdog) Wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// Run looks until the context ends.
func (w *Watchdog) Run(ctx context.Context) error {
	for {
		pause := w.options.Slow
		if w.look(ctx) {
			pause = w.options.Fast
		}
		timer := time.NewTimer(pause)
		woken := w.woken
		if pause == w.options.Fast {
			woken = nil // it looks often enough
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

// look takes in who keeps others waiting, and tells whether there is somebody who has to be watched.
func (w *Watchdog) look(ctx context.Context) (watch bool) {
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
	for _, s := range w.take(list) {
		w.tell(s)
		if w.overdue(s) {
			w.end(ctx, s)
		}
	}
	return slices.ContainsFunc(list, func(b store.Blocker) bool { return b.Reason != idle })
}

// The reason that is nobody's hurry.
const idle = "idle"

// take makes a list what is known, tells of those that are gone, and returns those that are there.
func (w *Watchdog) take(list []store.Blocker) []*seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[key]*seen{}
	var there []*seen
	for _, b := range list {
		k := key{b.PID, b.Transaction, b.Reason}
		s := &seen{Blocker: b, first: time.Now()}
		if before := w.known[k]; before != nil {
			s.first, s.told, s.ended = before.first, before.told, before.ended
		}
		now[k] = s
		there = append(there, s)
	}
	for k, s := range w.known {
		if now[k] == nil && s.told {
			w.log.Info("a session of the database holds up others no more", "pid", s.PID, "role", s.Role, "reason", s.Reason, "after", time.Since(s.first).Round(time.Second))
		}
	}
	w.known = now
	w.metrics.take(there)
	return there
}

// tell says once of a session that it keeps others waiting.
func (w *Watchdog) tell(s *seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.told || s.waited() < w.options.Patience {
		return
	}
	s.told = true
	w.log.Warn("a session of the database holds up others: have it commit, or end it (mcp-client blockers end PID)", "reason", s.Reason, "pid", s.PID, "role", s.Role,
		"database", s.Database, "application", s.Application, "client", s.Client, "state", s.State, "since", s.Since, "waiting", len(s.Blocks), "query", s.Query)
}

// waited is for how long it has been known to keep others waiting.
func (s *seen) waited() time.Duration { return time.Since(s.first) }

func (w *Watchdog) overdue(s *seen) bool {
	return w.options.EndAfter > 0 && s.waited() >= w.options.EndAfter && s.Reason != idle && !s.Server && !s.ended
}

// end ends a session, and does not try twice: the reason why that failed stays.
func (w *Watchdog) end(ctx context.Context, s *seen) {
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

// About says who keeps the mesh waiting, "" if nobody does.
func (w *Watchdog) About() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, reason := range []string{"lock", "queue"} {
		for _, s := range w.known {
			if !s.told || s.Reason != reason {
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

// Package watchdog looks for sessions of the database that hold up the mesh: that others wait for, or that keep Postgres's queue of notifications
// from emptying. It says who they are, counts them, and ends them if it was told to.
package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/wait"
	"github.com/pgmesh/pgmesh/store"
)

const (
	// look is how often it looks.
	look = 5 * time.Second

	// tolerated is how long others may wait for a session before that is told: most waits are over in milliseconds.
	tolerated = time.Second
)

// Watchdog watches one database.
type Watchdog struct {
	store *store.Store
	end   time.Duration // how long others may wait for a session before it is ended, 0 for ever
	log   *slog.Logger

	mu   sync.Mutex
	held map[int]store.Blocker // by their processes

	blockers prometheus.Gauge
	waiting  prometheus.Gauge
	ended    prometheus.Counter
}

// New returns a watchdog that ends sessions after a while, or none if that is 0.
func New(s *store.Store, end time.Duration, log *slog.Logger, metrics prometheus.Registerer) *Watchdog {
	w := &Watchdog{
		store: s, end: end, log: log, held: map[int]store.Blocker{},
		blockers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_blockers", Help: "How many sessions of the database hold up others of the mesh."}),
		waiting:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_mcp_server_blocked_seconds", Help: "How long the longest wait for such a session has lasted."}),
		ended:    prometheus.NewCounter(prometheus.CounterOpts{Name: "pgmesh_mcp_server_blockers_ended_total", Help: "Sessions that were ended because others waited for them (--end-blockers)."}),
	}
	metrics.MustRegister(w.blockers, w.waiting, w.ended)
	return w
}

// Run looks again and again, until the context ends.
func (w *Watchdog) Run(ctx context.Context) error {
	for said := ""; wait.For(ctx, look); {
		found, err := w.store.Blockers(ctx)
		if err != nil {
			if text := err.Error(); ctx.Err() == nil && !store.Temporary(err) && text != said {
				said = text
				w.log.Error("cannot look for sessions that hold up others", "error", err)
			}
			continue
		}
		w.see(ctx, found)
	}
	return ctx.Err()
}

// see tells of those who are new and of those who are gone, and ends those that others have waited for long enough.
func (w *Watchdog) see(ctx context.Context, found []store.Blocker) {
	now, longest := map[int]store.Blocker{}, time.Duration(0)
	for _, b := range found {
		if b.Waiting > 0 && b.Waited < tolerated {
			continue
		}
		now[b.PID], longest = b, max(longest, b.Waited)
		if _, known := w.held[b.PID]; !known {
			w.log.Warn("a session of the database holds up others: have it commit, or end it (mcp-server blockers --end PID)", "pid", b.PID, "role", b.Role,
				"application", b.Application, "client", b.Client, "since", b.Since, "reason", b.Reason, "waited", b.Waited.Round(time.Millisecond), "query", b.Query)
		}
		if w.end > 0 && b.Waited > w.end {
			w.finish(ctx, b)
		}
	}
	for pid, b := range w.held {
		if _, still := now[pid]; !still {
			w.log.Info("a session of the database holds up others no more", "pid", pid, "role", b.Role)
		}
	}
	w.blockers.Set(float64(len(now)))
	w.waiting.Set(longest.Seconds())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = now
}

func (w *Watchdog) finish(ctx context.Context, b store.Blocker) {
	if err := w.store.EndBlocker(ctx, b.PID); err != nil {
		w.log.Error("cannot end a session that others wait for", "pid", b.PID, "role", b.Role, "error", err)
		return
	}
	w.ended.Inc()
	w.log.Warn("ended a session that others waited for", "pid", b.PID, "role", b.Role, "waited", b.Waited.Round(time.Millisecond))
}

// Says tells people who is in the way, and nothing if nobody is.
func (w *Watchdog) Says() (text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.held {
		text += fmt.Sprintf("\n%s is in the way: %s", b, b.Reason)
	}
	return text
}

// Package installation looks for what somebody else than a migration has changed in the schema of the
// database, and reports it in the log and on /readyz. It is no reason not to be ready: all servers of
// the database would be unready at once.
package installation

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/store"
)

// Source lists the differences.
type Source interface {
	Differences(ctx context.Context) ([]store.Difference, error)
}

// Options of a watch. The zero value is right for production.
type Options struct {
	Interval time.Duration // how often to look; 5 min if 0, as it takes Postgres some tenths of a second
}

// Watch looks for differences.
type Watch struct {
	source  Source
	options Options
	log     *slog.Logger

	mu    sync.Mutex
	known []store.Difference
}

// New returns a watch; Run starts it.
func New(s Source, o Options, log *slog.Logger) *Watch {
	o.Interval = cmp.Or(o.Interval, 5*time.Minute)
	return &Watch{source: s, options: o, log: log}
}

// Run looks until the context ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		w.look(ctx)
		if !wait.For(ctx, w.options.Interval) {
			return ctx.Err()
		}
	}
}

// look logs what is new. While the database is away, what was found stays.
func (w *Watch) look(ctx context.Context) {
	list, err := w.source.Differences(ctx)
	if err != nil {
		w.log.Debug("cannot look for changes of the schema", "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := map[store.Difference]bool{}
	for _, d := range w.known {
		before[d] = true
	}
	for _, d := range list {
		if !before[d] {
			w.log.Warn("somebody has changed the schema of the database", "kind", d.Kind, "name", d.Name, "reason", d.Difference, "hint", d.Advice)
		}
	}
	w.known = list
}

// named is how many objects are named on /readyz.
const named = 3

// About says what was found, in one line; "" if that is nothing.
func (w *Watch) About() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) == 0 {
		return ""
	}
	var names []string
	for _, d := range w.known[:min(len(w.known), named)] {
		names = append(names, d.Kind+" "+d.Name)
	}
	if more := len(w.known) - named; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "somebody has changed the schema of the database: " + strings.Join(names, ", ") + " (mesh.check_installation() says how, and what to do)"
}

// Package installation looks for what somebody else than a migration has changed in the schema of the
// database, and in its rows around the triggers, and reports it in the log and on /readyz. It is no reason not to be ready: all servers of
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
			w.log.Warn(about(d), "kind", d.Kind, "name", d.Name, "reason", d.Difference, "hint", d.Advice)
		}
	}
	w.known = list
}

// The kinds of what is not an object of the schema.
const (
	grants   = "grants"
	resource = "resource"
)

// about says what a difference is about.
func about(d store.Difference) string {
	switch d.Kind {
	case grants:
		return "grants give nothing, or less than they should, to roles"
	case resource:
		return "resources were changed or deleted with triggers off"
	}
	return "somebody has changed the schema of the database"
}

// called is what it is called beside what it is about.
func called(d store.Difference) string {
	if d.Kind == grants || d.Kind == resource {
		return d.Name
	}
	return d.Kind + " " + d.Name
}

// named is how many objects are named on /readyz.
const named = 3

// About says what was found, in one line; "" if that is nothing.
func (w *Watch) About() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var subjects []string
	names := map[string][]string{}
	for _, d := range w.known {
		subject := about(d)
		if names[subject] == nil {
			subjects = append(subjects, subject)
		}
		names[subject] = append(names[subject], called(d))
	}
	if len(subjects) == 0 {
		return ""
	}
	for i, subject := range subjects {
		subjects[i] = subject + ": " + first(names[subject])
	}
	return strings.Join(subjects, "; ") + " (mesh.check_installation() says how, and what to do)"
}

// first names the first of what was found.
func first(names []string) string {
	if more := len(names) - named; more > 0 {
		names = append(names[:named:named], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

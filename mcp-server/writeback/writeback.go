// Package writeback has what became of a registry's configuration written to the registry, by the
// server that mirrors it.
//
// What became of it stands in the database, where reports of all servers meet. The registry decides
// what of it has to be written.
package writeback

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	joined "github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/store/registries"
)

const (
	// lookEvery is how often it is asked whether statuses may have changed, for so long after a change:
	// proxies are on their way to it. restEvery is how often afterwards.
	lookEvery = 50 * time.Millisecond
	restEvery = 500 * time.Millisecond
	soon      = 3 * time.Second
)

// Writer follows what becomes of a registry's configuration.
type Writer struct {
	store  *registries.Store
	trail  *joined.Trail
	log    *slog.Logger
	nudges chan struct{}
}

// New returns the writer of a registry; nil if no statuses are to be written to it.
func New(s *registries.Store, t *joined.Trail, log *slog.Logger) *Writer {
	if t.Writer() == nil {
		return nil
	}
	return &Writer{store: s, trail: t, log: log.With("registry", t.Name()), nudges: make(chan struct{}, 1)}
}

// Nudge says that the mirror has changed.
func (w *Writer) Nudge() {
	if w == nil {
		return
	}
	select {
	case w.nudges <- struct{}{}:
	default:
	}
}

// Run has statuses written until the context ends.
func (w *Writer) Run(ctx context.Context) error {
	if w == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	w.log.Info("this server writes what becomes of the registry's configuration to the registry")
	g, ctx := errgroup.WithContext(ctx)
	known := make(chan []registry.Status, 1)
	g.Go(func() error { return w.trail.Writer().WriteStatuses(ctx, known) })
	g.Go(func() error { return w.follow(ctx, known) })
	return g.Wait()
}

// follow tells all statuses whenever some may have changed.
func (w *Writer) follow(ctx context.Context, to chan []registry.Status) error {
	f := following{Writer: w, moves: -1}
	return retry.Loop{
		Pauses: retry.Pauses{First: 100 * time.Millisecond, Longest: 10 * time.Second},
		Reason: func(err error, again time.Duration) {
			w.log.Warn("cannot read what became of the registry's configuration; the server goes on trying", "again_in", again, "error", err)
		},
	}.Forever(ctx, func(works func()) error {
		for {
			if err := f.look(ctx, to); err != nil {
				return err
			}
			works()
			if err := f.wait(ctx); err != nil {
				return err
			}
		}
	})
}

// following is how far statuses were followed.
type following struct {
	*Writer

	moves   int64     // of the database, when they were read
	nudged  bool      // the mirror has changed since
	changed time.Time // when something has changed last
	took    time.Duration
}

// look reads statuses, if they may be others than before.
func (f *following) look(ctx context.Context, to chan []registry.Status) error {
	moves, err := f.store.Moves(ctx)
	if err != nil || moves == f.moves && !f.nudged {
		return err
	}
	begun := time.Now()
	list, err := f.store.Statuses(ctx, f.trail.Name())
	if err != nil {
		return err
	}
	f.moves, f.nudged, f.changed, f.took = moves, false, begun, time.Since(begun)
	select {
	case <-to: // nobody has taken it yet, and this is newer
	default:
	}
	to <- f.trail.Statuses(statusesOf(list))
	return nil
}

func statusesOf(list []registries.Status) map[joined.Version]registry.Status {
	out := make(map[joined.Version]registry.Status, len(list))
	for _, s := range list {
		kind, known := kinds.Lookup(s.Group, s.Kind)
		if !known { // a newer server has kinds that this one does not know
			continue
		}
		conditions := make([]registry.Condition, len(s.Conditions))
		for i, c := range s.Conditions {
			conditions[i] = registry.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
		out[joined.Version{Key: kinds.Key{Kind: kind, Namespace: s.Namespace, Name: s.Name}, Version: s.Version}] = registry.Status{Conditions: conditions, Own: s.Own}
	}
	return out
}

// wait waits until it is time to look again. Reading may take a third of the time.
func (f *following) wait(ctx context.Context) error {
	pause := restEvery
	if time.Since(f.changed) < soon {
		pause = max(lookEvery, 2*f.took)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.nudges:
		f.nudged = true
	case <-ctx.Done():
	}
	return ctx.Err()
}

// ErrNoDatabase is why a server without a database cannot write statuses.
var ErrNoDatabase = errors.New("what became of its configuration can be written by a server with a database alone, for that knows it: give --database, or leave status=true out of the URL")

// Package registries runs the registries of a server, and has what they have served beside the
// content of the server's source.
//
// What a registry gives is checked as a row of the database is. A bad entry costs only itself: its
// last good state stays. When a registry cannot be asked, everything that it had stays, and is
// stale.
package registries

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/registry"
)

// Options of Registries.
type Options struct {
	// Registries are read, in the order in which they count.
	Registries []registry.Registry
	// Wait is how long a starting server waits for those that were never read.
	Wait time.Duration
}

// Registries are those of a server.
type Registries struct {
	wait      time.Duration
	publisher *publish.Publisher
	log       *slog.Logger
	origins   []*origin
}

// New has registries join a publisher, which must have nothing to serve yet.
func New(p *publish.Publisher, log *slog.Logger, metrics prometheus.Registerer, o Options) *Registries {
	all := &Registries{wait: o.Wait, publisher: p, log: log}
	names := make([]string, len(o.Registries))
	for i, r := range o.Registries {
		names[i] = r.Name()
		all.origins = append(all.origins, newOrigin(r, i+1, p, log.With("registry", r.Name())))
	}
	p.Join(names...)
	metrics.MustRegister(all)
	return all
}

// Run reads all registries until the context ends. One whose settings can never work is away: the
// mesh goes on without it.
func (all *Registries) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, o := range all.origins {
		g.Go(func() error { return o.run(ctx) })
	}
	g.Go(func() error { return all.giveUpWaiting(ctx) })
	return g.Wait()
}

// giveUpWaiting has the server serve without what it was waiting for.
func (all *Registries) giveUpWaiting(ctx context.Context) error {
	if !wait.For(ctx, all.wait) {
		return ctx.Err()
	}
	for _, o := range all.origins {
		o.notAwaited(all.wait)
	}
	<-ctx.Done()
	return ctx.Err()
}

// Status describes each registry, in their order.
func (all *Registries) Status() []Status {
	out := make([]Status, len(all.origins))
	for i, o := range all.origins {
		out[i] = o.status()
	}
	return out
}

// About says what people should know of the registries; "" if all of them are read and sound.
func (all *Registries) About() string {
	var parts []string
	for _, s := range all.Status() {
		if text := s.about(); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// Find returns the registry that has a resource, and of which of its entries it was made; "" if none
// has it.
func (all *Registries) Find(key kinds.Key) (name, entry string) {
	for _, o := range all.origins {
		if found, has := o.find(key); has {
			return o.registry.Name(), found
		}
	}
	return "", ""
}

// errEnded is the reason of a registry that ends although nobody ended it.
var errEnded = errors.New("it has ended by itself")

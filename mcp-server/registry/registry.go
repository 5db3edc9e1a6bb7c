// Package registry keeps which services of which machines are there, for the discoveries that the machines are connected to.
//
// The database decides everything: each message of a discovery is a transaction, which says of each change what became of it. Here is what a
// database cannot do by itself. A session lasts as long as its stream, so the server that has the stream says every few seconds that it does; and one
// server at a time moves on the clock by which those are measured who are gone, and removes them. When the database is away nothing of that happens,
// and nothing is lost: streams with nothing to tell stay, and one with something ends with UNAVAILABLE, to be opened anew where there is a database.
package registry

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	"github.com/pgmesh/pgmesh/store"
)

// DefaultGrace is how long the entry of a machine stays that is gone.
const DefaultGrace = time.Minute

// Options of a Registry. The zero value is right for production, but for the name.
type Options struct {
	Name  string        // of the server
	Grace time.Duration // how long the entry of a machine stays that is gone without a word; DefaultGrace if 0
	Every time.Duration // how often sessions are refreshed, and the clock is moved; 2 s if 0
	Lease time.Duration // how long a session counts that is not; seven times that if 0
}

const (
	// atOnce is how many batches go to the database at once: the others wait, and leave connections to those who ask for something else.
	atOnce = 2

	// endWithin bounds how long ending a session may take. A session that is not ended runs out.
	endWithin = 3 * time.Second
)

// Registry is the service.
type Registry struct {
	machinev1.UnimplementedRegistryServiceServer

	store   *store.Store
	keeper  store.Keeper
	options Options
	metrics *metrics
	log     *slog.Logger
	turns   chan struct{}
	done    chan struct{}
	streams sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[int64]*session // those that the database knows
	ending   map[int64]struct{} // those whose end the database does not know yet
}

// New returns a registry in a store.
func New(s *store.Store, log *slog.Logger, m prometheus.Registerer, o Options) *Registry {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Lease == 0 {
		o.Lease = 7 * o.Every
	}
	r := &Registry{
		store: s, options: o, metrics: newMetrics(m), log: log, turns: make(chan struct{}, atOnce), done: make(chan struct{}),
		sessions: map[int64]*session{}, ending: map[int64]struct{}{},
	}
	_, _ = rand.Read(r.keeper[:]) // which never fails
	return r
}

// Register adds the service to a server.
func (r *Registry) Register(g grpc.ServiceRegistrar) { machinev1.RegisterRegistryServiceServer(g, r) }

// Shutdown ends the streams. It must be called once.
func (r *Registry) Shutdown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	close(r.done)
}

// Run keeps the sessions, and watches over machines, until the context ends. Then it waits for the streams, which [Registry.Shutdown] ends, and says
// good-bye for those that are left. The two do not wait for each other: to remove many machines may take longer than a lease.
func (r *Registry) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	w := watch{Registry: r}
	watching.Go(func() { r.every(ctx, w.round) })
	r.every(ctx, r.keep)
	watching.Wait()
	r.leave()
	return ctx.Err()
}

// every does something at once, and again and again until the context ends.
func (r *Registry) every(ctx context.Context, do func(context.Context)) {
	tick := time.NewTicker(r.options.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// leave ends what is left of the sessions.
func (r *Registry) leave() {
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.streams.Wait()
	}()
	select {
	case <-over:
	case <-time.After(endWithin):
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	r.mu.Lock()
	for id := range r.sessions {
		r.ending[id] = struct{}{}
	}
	r.mu.Unlock()
	r.end(ctx)
}

// end tells the database which sessions have ended.
func (r *Registry) end(ctx context.Context) {
	r.mu.Lock()
	ids := make([]int64, 0, len(r.ending))
	for id := range r.ending {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	if err := r.store.EndWorkloadSessions(ctx, r.keeper, ids); err != nil {
		r.log.Debug("cannot say yet that sessions of registrations have ended", "sessions", len(ids), "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.ending, id)
	}
}

// Package registry records which machines serve what, for the discoveries that the machines are
// connected to.
//
// The database decides everything: each message of a discovery is a transaction, which returns the
// outcome of each change. This package does what a database cannot. A session lasts as long as its
// stream, so the server with the stream refreshes it every few seconds. One server at a time
// advances the clock by which the absence of machines is measured, and removes those that are gone
// for too long. While the database is away none of this happens and nothing is lost: quiet streams
// stay, and a stream with a change ends with UNAVAILABLE, so that the discovery opens another to a
// server with a database.
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
	"github.com/pgmesh/pgmesh/store/machines"
)

// DefaultGrace is how long the entry of a machine stays after the machine is gone.
const DefaultGrace = time.Minute

// Options of a Registry. The zero value is right for production, except for the name.
type Options struct {
	Name            string        // the server's
	Grace           time.Duration // how long the entry of a lost machine stays; DefaultGrace if 0
	RefreshInterval time.Duration // how often sessions are refreshed and the clock advances; 2 s if 0
	Lease           time.Duration // how long a session lasts without a refresh; seven intervals if 0
}

const (
	// maxConcurrentBatches is how many batches use the database at once. Others wait, so that
	// connections are left for other calls.
	maxConcurrentBatches = 2

	// endTimeout bounds the ending of sessions. A session that is not ended expires with its lease.
	endTimeout = 3 * time.Second
)

// Registry is the gRPC service.
type Registry struct {
	machinev1.UnimplementedRegistryServiceServer

	machines *machines.Store
	keeper   machines.Keeper
	options  Options
	metrics  *metrics
	log      *slog.Logger
	slots    chan struct{}  // a semaphore of maxConcurrentBatches
	done     chan struct{}  // closed by Shutdown
	streams  sync.WaitGroup // Run waits for them

	mu       sync.Mutex
	closed   bool               // Shutdown was called
	sessions map[int64]*session // open sessions in the database, by id
	ending   map[int64]struct{} // ended sessions that the database still has open
}

// New returns a registry of a store.
func New(s *store.Store, log *slog.Logger, m prometheus.Registerer, o Options) *Registry {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.RefreshInterval == 0 {
		o.RefreshInterval = 2 * time.Second
	}
	if o.Lease == 0 {
		o.Lease = 7 * o.RefreshInterval
	}
	r := &Registry{
		machines: machines.New(s), options: o, metrics: newMetrics(m), log: log, slots: make(chan struct{}, maxConcurrentBatches), done: make(chan struct{}),
		sessions: map[int64]*session{}, ending: map[int64]struct{}{},
	}
	_, _ = rand.Read(r.keeper[:]) // which never fails
	return r
}

// Register adds the service to a server.
func (r *Registry) Register(g grpc.ServiceRegistrar) { machinev1.RegisterRegistryServiceServer(g, r) }

// Shutdown ends the streams. Call it once.
func (r *Registry) Shutdown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	close(r.done)
}

// Run refreshes the sessions and watches the machines until the context ends. Then it waits for the
// streams, which [Registry.Shutdown] ends, and ends the sessions that are left. The two loops are
// independent, because removing many machines may take longer than a lease.
func (r *Registry) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	w := clockWatch{Registry: r}
	watching.Go(func() { r.runEvery(ctx, w.runRound) })
	r.runEvery(ctx, r.keepSessions)
	watching.Wait()
	r.drain()
	return ctx.Err()
}

// runEvery calls a function now and at each interval, until the context ends.
func (r *Registry) runEvery(ctx context.Context, do func(context.Context)) {
	tick := time.NewTicker(r.options.RefreshInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// drain waits for the streams and ends the remaining sessions.
func (r *Registry) drain() {
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.streams.Wait()
	}()
	select {
	case <-over:
	case <-time.After(endTimeout):
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	r.mu.Lock()
	for id := range r.sessions {
		r.ending[id] = struct{}{}
	}
	r.mu.Unlock()
	r.endSessions(ctx)
}

// endSessions ends sessions in the database.
func (r *Registry) endSessions(ctx context.Context) {
	r.mu.Lock()
	ids := make([]int64, 0, len(r.ending))
	for id := range r.ending {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	if err := r.machines.EndSessions(ctx, r.keeper, ids); err != nil {
		r.log.Debug("cannot say yet that sessions of registrations have ended", "sessions", len(ids), "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.ending, id)
	}
}

// Package rollout writes down what discoveries report: which revision each proxy runs.
//
// Each message of a report is a transaction. A report counts as long as its keeper does: a
// connection of this server to the database that holds a lock, so that a server which dies takes
// its reports along without anybody's doing. Nothing is written while nothing changes. What cannot
// be written ends the stream, and its discovery begins another with all it knows.
package rollout

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// Options of a Service. The zero value is right for production, except for the name.
type Options struct {
	Name          string        // the server's
	CheckInterval time.Duration // how often the keeper's connection is asked whether it is there; 2 s if 0
	SweepInterval time.Duration // how often to remove what has been away for long; 30 s if 0
}

const (
	// maxConcurrentMessages is how many messages use the database at once. Others wait, so that
	// connections are left for other calls.
	maxConcurrentMessages = 2

	// maxWaits is how many may wait at once until proxies run a revision.
	maxWaits = 64

	// maxWatches is how many may watch at once how far revisions come.
	maxWatches = 64

	// endTimeout bounds the ending of reports. One that is not ended counts no more once the
	// keeper's connection is gone.
	endTimeout = 3 * time.Second

	// aliveTimeout is how long the keeper's connection may take to answer.
	aliveTimeout = 10 * time.Second
)

// Service is the gRPC service to which discoveries report, and the one that tells what they did.
type Service struct {
	rolloutv1.UnimplementedRolloutServiceServer
	adminv1.UnimplementedProxyServiceServer

	store   *rollout.Store
	options Options
	metrics *metrics
	log     *slog.Logger
	slots   chan struct{}  // a semaphore of maxConcurrentMessages
	opening chan struct{}  // a semaphore of one: who opens a keeper
	doubt   chan struct{}  // has one element if the keeper is to be checked now
	done    chan struct{}  // closed by Shutdown
	streams sync.WaitGroup // Run waits for them, and for keepers that are being closed
	waits   chan struct{}  // a semaphore of maxWaits
	watches chan struct{}  // a semaphore of maxWatches
	news    *news          // for those who wait and watch
	lookout *lookout       // for those who wait

	mu     sync.Mutex
	closed bool  // Shutdown was called
	term   *term // nil while there are no reports
}

// New returns a service of a store.
func New(s *store.Store, log *slog.Logger, m prometheus.Registerer, o Options) *Service {
	if o.CheckInterval == 0 {
		o.CheckInterval = 2 * time.Second
	}
	if o.SweepInterval == 0 {
		o.SweepInterval = 30 * time.Second
	}
	proxies := rollout.New(s)
	m.MustRegister(newStanding(proxies))
	return &Service{
		store: proxies, waits: make(chan struct{}, maxWaits), watches: make(chan struct{}, maxWatches), news: newNews(), lookout: newLookout(proxies.Tally), options: o, metrics: newMetrics(m), log: log,
		slots: make(chan struct{}, maxConcurrentMessages), opening: make(chan struct{}, 1), doubt: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Register adds the services to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	rolloutv1.RegisterRolloutServiceServer(g, s)
	adminv1.RegisterProxyServiceServer(g, s)
}

// Shutdown ends the streams. Call it once.
func (s *Service) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.done)
}

// Run watches the keeper and sweeps until the context ends. Then it waits for the streams, which
// [Service.Shutdown] ends.
func (s *Service) Run(ctx context.Context) error {
	var sweeping sync.WaitGroup
	sweeping.Go(func() { s.sweepOften(ctx) })
	s.watch(ctx)
	sweeping.Wait()
	s.drain()
	return ctx.Err()
}

// drain waits for the streams, the last of which closes the keeper, for as long as that may take.
func (s *Service) drain() {
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.streams.Wait()
	}()
	select {
	case <-over:
	case <-time.After(2 * endTimeout): // a report ends, and then its keeper is closed
	}
}

// sweepOften removes what nobody needs to see any more: what has been away for long, of any server.
func (s *Service) sweepOften(ctx context.Context) {
	tick := time.NewTicker(s.options.SweepInterval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		removed, err := s.store.Sweep(ctx)
		switch {
		case err == nil:
			failing = false
		case ctx.Err() == nil && !store.Temporary(err) && !failing:
			failing = true
			s.log.Error("cannot remove reports of proxies that have been away for long; the server goes on trying", "error", err)
		}
		if removed > 0 {
			s.log.Debug("removed reports of proxies that have been away for long", "rows", removed)
		}
	}
}

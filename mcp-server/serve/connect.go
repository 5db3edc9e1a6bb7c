package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/store"
)

// connect opens the store, and goes on trying for as long as the database may come back by itself.
func (s *server) connect(ctx context.Context) (*store.Store, error) {
	o := s.options
	retry := &backoff.ExponentialBackOff{
		InitialInterval: 50 * time.Millisecond, MaxInterval: 2 * time.Second, Multiplier: 1.6, RandomizationFactor: 0.5,
	}
	for {
		opened, err := open(ctx, o)
		if err == nil || ctx.Err() != nil || !store.Temporary(err) {
			return opened, err
		}
		if s.phase.failed(err) { // the same failure over and over is said once
			o.Log.Warn("cannot reach the database; clients wait until it is there", "error", err)
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func open(ctx context.Context, o Options) (*store.Store, error) {
	if o.Migrate {
		if err := store.MigrateTelling(ctx, o.Database, func(line string) { o.Log.Info(line) }); err != nil {
			return nil, err
		}
	}
	return store.Open(ctx, o.Database, store.Options{Application: "mcp-server", Replica: o.Replica, Poll: o.Poll, Log: o.Log})
}

// phase is how far the program has come, for whoever asks whether it is ready.
type phase struct {
	mu        sync.Mutex
	err       error
	publisher *publish.Publisher
}

// failed notes why the database cannot be reached, and tells whether that is news.
func (p *phase) failed(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := p.err == nil || p.err.Error() != err.Error()
	p.err = err
	return news
}

func (p *phase) opened(publisher *publish.Publisher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publisher = publisher
}

func (p *phase) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.publisher != nil:
		return p.publisher.Ready()
	case p.err != nil:
		return fmt.Errorf("the database cannot be reached: %w", p.err)
	default:
		return errors.New("the database is being opened")
	}
}

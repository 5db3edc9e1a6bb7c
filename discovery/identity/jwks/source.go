package jwks

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/places"
)

// source is fetched again and again until it is not wanted any more.
type source struct {
	at      mesh.KeySource
	timeout atomic.Int64
	end     func()
	had     time.Time // when the keys were last fetched; zero for never
}

func newSource(at mesh.KeySource) *source { return &source{at: at, end: func() {}} }

// longestRetry bounds the pause after a failure, apart from jitter.
const longestRetry = time.Minute

// follow fetches until the context ends: after a success when it is time to refresh, after a
// failure with growing pauses.
func (k *Keeper) follow(ctx context.Context, s *source) {
	o := k.options
	fetching := retry.Loop{Pauses: retry.Pauses{First: min(o.Retry, o.Refresh), Longest: min(longestRetry, o.Refresh), Growth: 2, Jitter: 0.1}}
	for {
		if err := fetching.Until(ctx, func() error { return k.attempt(ctx, s) }); err != nil {
			return
		}
		if !wait.For(ctx, jittered(o.Refresh)) {
			return
		}
	}
}

// jittered spreads sources out that began together.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Float64()*float64(d)/10)
}

// attempt fetches once.
func (k *Keeper) attempt(ctx context.Context, s *source) error {
	select {
	case k.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	timeout := time.Duration(s.timeout.Load())
	limited, cancel := context.WithTimeout(ctx, timeout)
	set, err := panics.Receive(func() (*webkeys.Set, error) { return k.fetch(limited, s.at) })
	cancel()
	<-k.turns
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		k.fetches.WithLabelValues("failed").Inc()
		k.keep(s, mesh.Fetched{Keys: k.stillGood(s), Problem: places.Reason(err, timeout)})
		return err
	}
	k.fetches.WithLabelValues("succeeded").Inc()
	s.had = time.Now()
	k.keep(s, mesh.Fetched{Keys: set.Canonical()})
	k.file.put(s.at, kept{Keys: set.Canonical(), Fetched: s.had})
	return nil
}

// stillGood returns the last keys, unless they are too old.
func (k *Keeper) stillGood(s *source) string {
	if time.Since(s.had) > k.options.MaxAge {
		return ""
	}
	return k.Keys()[s.at].Keys
}

// fetch fetches the keys of a source.
func (k *Keeper) fetch(ctx context.Context, at mesh.KeySource) (*webkeys.Set, error) {
	url := at.URL
	if url == "" {
		found, err := k.discover(ctx, at.Issuer)
		if err != nil {
			return nil, err
		}
		url = found
	}
	body, err := k.get(ctx, url)
	if err != nil {
		return nil, err
	}
	set, err := webkeys.Read(string(body))
	if err != nil {
		return nil, unusable{url, err}
	}
	return set, nil
}

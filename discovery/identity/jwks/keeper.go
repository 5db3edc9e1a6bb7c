// Package jwks fetches the keys with which issuers sign tokens, and keeps them fresh.
//
// Discovery fetches them for its proxies. So an Envoy needs no way out of the mesh for them, and
// all have the same keys. The sources are written by those who write configuration, who may be
// tenants, and the answer is up to whoever is at the address. So fetching is limited to what a key
// server needs: package places says where it may connect, and fetch.go how much it may read.
package jwks

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/places"
)

// Options say how keys are fetched.
type Options struct {
	// Refresh is how long keys are used before they are fetched again.
	Refresh time.Duration
	// Retry is the pause after a failure. Each further failure doubles it, up to Refresh or a
	// minute, whichever is less.
	Retry time.Duration
	// MaxAge is how long keys are used that cannot be fetched again.
	MaxAge time.Duration
	// MaxSize bounds a document, in bytes.
	MaxSize int64
	// File keeps the keys over a restart; "" for none.
	File string
	places.Options
}

// What is fetched, and how the flags on where from begin.
const (
	fetched = "keys"
	prefix  = "jwks"
)

// Defaults are right for most meshes.
func Defaults() Options {
	return Options{Refresh: 20 * time.Minute, Retry: time.Second, MaxAge: 7 * 24 * time.Hour, MaxSize: 1 << 18}
}

// completed returns the options with defaults for what is not set.
func (o Options) completed() Options {
	d := Defaults()
	o.Refresh, o.Retry, o.MaxAge, o.MaxSize = cmp.Or(o.Refresh, d.Refresh), cmp.Or(o.Retry, d.Retry), cmp.Or(o.MaxAge, d.MaxAge), cmp.Or(o.MaxSize, d.MaxSize)
	return o
}

// Flags declares the flags of the package.
func (o *Options) Flags(f *pflag.FlagSet) {
	d := Defaults()
	f.DurationVar(&o.Refresh, "jwks-refresh", d.Refresh, "how often the keys of RequestAuthentications are fetched again from where issuers publish them")
	f.DurationVar(&o.Retry, "jwks-retry", d.Retry, "how long after a failure to fetch keys it is tried again; each further failure doubles it, up to a minute")
	f.DurationVar(&o.MaxAge, "jwks-max-age", d.MaxAge, "for how long keys are used that cannot be fetched again; after that the issuer's tokens are refused")
	f.Int64Var(&o.MaxSize, "jwks-max-size", d.MaxSize, "bytes that a document of keys may have")
	o.Options.Flags(f, fetched, prefix)
	f.StringVar(&o.File, "jwks-file", "", "file to keep fetched keys in, so that a restart finds them while an issuer cannot be reached")
}

// Keeper has the keys of all sources that the mesh needs.
type Keeper struct {
	options Options
	client  *http.Client
	log     *slog.Logger
	fetches *prometheus.CounterVec

	turns chan struct{} // has room for as many as may fetch at once
	news  chan struct{} // has room for one signal: the keys changed
	file  *file         // nil for none

	mu      sync.Mutex
	sources map[mesh.KeySource]*source                  // all wanted sources
	wanted  map[string]map[mesh.KeySource]time.Duration // by who needs them
	keys    mesh.FetchedKeys                            // replaced, never changed
	begun   context.Context                             //nolint:containedctx // of Run, for fetching; nil before Run
	waiting sync.WaitGroup                              // for the goroutines that fetch
	tried   chan struct{}                               // closed and replaced whenever a source was tried for the first time
}

// mostAtOnce is how many sources are asked at a time. Others wait for their turn, at most as long
// as a timeout.
const mostAtOnce = 32

// New returns a keeper with the keys in its file, if it has one.
func New(o Options, log *slog.Logger, metrics prometheus.Registerer) (*Keeper, error) {
	from, roots, err := o.Open(fetched, prefix)
	if err != nil {
		return nil, err
	}
	o = o.completed()
	k := &Keeper{
		options: o, client: from.Client(roots), log: log, file: openFile(o.File, log),
		turns: make(chan struct{}, mostAtOnce), news: make(chan struct{}, 1), tried: make(chan struct{}),
		sources: map[mesh.KeySource]*source{}, wanted: map[string]map[mesh.KeySource]time.Duration{}, keys: mesh.FetchedKeys{},
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_jwks_fetches_total", Help: "Attempts to fetch keys that tokens are checked with, by how they ended.",
		}, []string{"result"}),
	}
	for _, result := range []string{"succeeded", "failed"} {
		k.fetches.WithLabelValues(result) // so that both begin at 0
	}
	metrics.MustRegister(k.fetches, k.gauge("pgmesh_discovery_jwks_sources", "Places that keys are fetched from.", func(mesh.Fetched) bool { return true }),
		k.gauge("pgmesh_discovery_jwks_missing", "Places whose keys could not be fetched, or not again for too long: tokens of their issuers are refused.",
			func(f mesh.Fetched) bool { return f.Keys == "" }),
		k.gauge("pgmesh_discovery_jwks_failing", "Places of which the last attempt failed; /problems has the reason.", func(f mesh.Fetched) bool { return f.Problem != "" }))
	return k, nil
}

func (k *Keeper) gauge(name, help string, counts func(mesh.Fetched) bool) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		n := 0
		for _, f := range k.Keys() {
			if counts(f) {
				n++
			}
		}
		return float64(n)
	})
}

// Run fetches until the context ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	k.begun = ctx
	for _, s := range k.sources {
		k.start(s)
	}
	k.mu.Unlock()
	<-ctx.Done()
	k.mu.Lock()
	k.begun = nil // nobody starts any more
	k.mu.Unlock()
	k.waiting.Wait()
	return ctx.Err()
}

// Want sets which sources the mesh needs, each with the time that an attempt may take. It forgets
// sources that are not needed any more.
func (k *Keeper) Want(sources map[mesh.KeySource]time.Duration) { k.want("the mesh", sources) }

// WantToo sets which sources are needed for tokens that machines join with, beside those of the
// mesh.
func (k *Keeper) WantToo(sources map[mesh.KeySource]time.Duration) { k.want("joining", sources) }

// want sets which sources one user needs. If several need a source, its longest timeout counts.
func (k *Keeper) want(who string, needs map[mesh.KeySource]time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted[who] = needs
	sources := map[mesh.KeySource]time.Duration{}
	for _, needs := range k.wanted {
		for at, timeout := range needs {
			sources[at] = max(sources[at], timeout)
		}
	}
	keys := maps.Clone(k.keys)
	for at, s := range k.sources {
		if _, wanted := sources[at]; !wanted {
			s.end()
			delete(k.sources, at)
			delete(keys, at)
		}
	}
	for at, timeout := range sources {
		s, known := k.sources[at]
		if !known {
			s = newSource(at)
			k.sources[at] = s
		}
		s.timeout.Store(int64(timeout)) // before the first attempt
		if !known {
			if kept, some := k.file.get(at, k.options.MaxAge); some {
				s.had, keys[at] = kept.Fetched, mesh.Fetched{Keys: kept.Keys}
			}
			k.start(s)
		}
	}
	k.keys = keys
}

// start begins to fetch from a source, if Run has begun.
func (k *Keeper) start(s *source) {
	if k.begun == nil {
		return
	}
	ctx, cancel := context.WithCancel(k.begun)
	s.end = cancel
	k.waiting.Go(func() { k.follow(ctx, s) })
}

// Keys returns the keys so far.
func (k *Keeper) Keys() mesh.FetchedKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// News receives when keys have changed, once for several changes.
func (k *Keeper) News() <-chan struct{} { return k.news }

// Await waits until each wanted source was tried once, or the context ends.
func (k *Keeper) Await(ctx context.Context) {
	for {
		k.mu.Lock()
		tried, missing := k.tried, false
		for at := range k.sources {
			if _, known := k.keys[at]; !known {
				missing = true
			}
		}
		k.mu.Unlock()
		if !missing {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tried:
		}
	}
}

// keep stores the result of an attempt, if the source is still wanted.
func (k *Keeper) keep(s *source, now mesh.Fetched) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sources[s.at] != s {
		return
	}
	before, known := k.keys[s.at]
	if known && before == now {
		return
	}
	k.keys = maps.Clone(k.keys)
	k.keys[s.at] = now
	close(k.tried)
	k.tried = make(chan struct{})
	select {
	case k.news <- struct{}{}:
	default: // whoever is woken takes everything
	}
	if now.Problem != "" && now.Problem != before.Problem {
		k.log.Warn("the keys of an issuer of tokens cannot be fetched; it is tried again", "from", s.at.String(), "reason", now.Problem, "kept", now.Keys != "")
	}
	if now.Problem == "" {
		k.log.Info("new keys of an issuer of tokens", "from", s.at.String())
	}
}

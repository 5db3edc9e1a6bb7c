// Package wasm has the modules of Wasm plugins on this machine: it fetches them, keeps them, and
// tells those who wait for one when it is there, or why it is not.
//
// A place that several plugins name is asked once for all of them. Each place is asked on its own:
// one that hangs keeps nobody else waiting.
package wasm

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/fetch"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/modules"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
)

// Modules has the modules of this machine.
type Modules struct {
	options Options
	kept    *modules.Store
	fetcher *fetch.Fetcher
	log     *slog.Logger
	metrics *metrics
	ctx     context.Context //nolint:containedctx // of all fetching, which outlives those who ask
	end     context.CancelFunc
	work    sync.WaitGroup

	mu    sync.Mutex
	loads map[loadKey]*load
	hosts map[string]*turns
}

// loadKey tells apart what is fetched.
type loadKey struct{ place, digest string }

// Surroundings are what the modules need of the agent.
type Surroundings struct {
	Folder string
	// InUse returns the files that Envoy's configuration names.
	InUse func() []string
	// Own gives a file to the account that Envoy runs under.
	Own func(path string) error
	Log *slog.Logger
	// Metrics registers the metrics, unless it is nil.
	Metrics prometheus.Registerer
}

// Open opens the folder of modules. Close ends all fetching.
func Open(o Options, s Surroundings) (*Modules, error) {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	fetcher, err := o.fetcher()
	if err != nil {
		return nil, err
	}
	kept, err := modules.Open(modules.Options{
		Folder: s.Folder, MaxModules: o.MaxModules, MaxBytes: o.MaxBytes, Keep: o.Keep, InUse: s.InUse, Own: s.Own, Log: s.Log,
	})
	if err != nil {
		return nil, err
	}
	m := &Modules{options: o, kept: kept, fetcher: fetcher, log: s.Log, loads: map[loadKey]*load{}, hosts: map[string]*turns{}}
	m.ctx, m.end = context.WithCancel(context.Background())
	m.metrics = newMetrics(s.Metrics, m)
	m.work.Go(m.sweep)
	return m, nil
}

// Close ends all fetching, and saves what is known.
func (m *Modules) Close() {
	m.end()
	m.work.Wait()
	m.save()
}

func (m *Modules) save() {
	if err := m.kept.Save(); err != nil {
		m.log.Warn("what is known of Wasm modules cannot be saved; they are fetched again after a restart", "error", err)
	}
}

// sweepInterval is how often modules that nobody uses are looked for, which stay for a day.
const sweepInterval = time.Hour

func (m *Modules) sweep() {
	for wait.For(m.ctx, sweepInterval) {
		if err := m.kept.Sweep(time.Now()); err != nil {
			m.log.Warn("what is known of Wasm modules cannot be saved; they are fetched again after a restart", "error", err)
		}
	}
}

// Wait returns how long a listener waits for a module before something stands in for its plugin.
func (m *Modules) Wait() time.Duration { return m.options.Wait }

// Watch is somebody who waits for the module of a plugin.
type Watch struct {
	modules *Modules
	load    *load
	plugin  *plugin.Plugin
	changed func()

	// Guarded by Modules.mu.
	path    string
	failure string
	release func()
}

// Watch begins to wait for the module of a plugin, and to fetch it if it is not there. The function
// is called whenever there is something new. Stop must be called at the end; until then the module
// stays.
func (m *Modules) Watch(p *plugin.Plugin, changed func()) *Watch {
	w := &Watch{modules: m, plugin: p, changed: changed}
	if p.NoCredentials {
		m.refuse(w, "its imagePullSecret is not there: write the secret, in the namespace of the plugin")
		return w
	}
	key := loadKey{m.kept.Place(p.URL, p.Credentials), p.Digest}
	if m.find(w, key) {
		m.metrics.lookedUp(true)
		return w
	}
	m.metrics.lookedUp(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.loads[key]
	if l == nil {
		l = &load{key: key, request: fetch.Request{URL: p.URL, Digest: p.Digest, Credentials: p.Credentials}, timeout: p.Timeout, watches: map[*Watch]bool{}}
		m.loads[key] = l
		var ctx context.Context
		ctx, l.end = context.WithCancel(m.ctx)
		m.work.Go(func() { m.run(ctx, l) })
	}
	l.watches[w], w.load, w.failure = true, l, l.failure
	return w
}

// refuse has somebody wait for what will not come before the plugin changes.
func (m *Modules) refuse(w *Watch, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &load{key: loadKey{digest: "of " + w.plugin.Name}, request: fetch.Request{URL: w.plugin.URL}, end: func() {}, watches: map[*Watch]bool{w: true}, failure: why}
	w.load, w.failure = l, why
	m.loads[l.key] = l
}

// find finds the module among those that are kept, if the place need not be asked.
func (m *Modules) find(w *Watch, key loadKey) bool {
	p := w.plugin
	digest, forThis := m.kept.At(key.place, p.Name, p.Version)
	asks := p.Policy == plugin.Always || p.Policy == plugin.Default && fetch.Moving(p.URL)
	if digest == "" || asks && !forThis || p.Digest != "" && p.Digest != digest && !m.kept.Matches(key.place, p.Digest) {
		return false
	}
	release, there := m.kept.Use(digest)
	if there {
		w.path, w.release = m.kept.Path(digest), release
	}
	return there
}

// State returns the file of the module, or "" with the reason why the last attempt to get it
// failed; "" for both means that the first attempt is under way.
func (w *Watch) State() (path, failure string) {
	w.modules.mu.Lock()
	defer w.modules.mu.Unlock()
	return w.path, w.failure
}

// Stop ends the wait.
func (w *Watch) Stop() {
	m := w.modules
	m.mu.Lock()
	release, l := w.release, w.load
	w.release = nil
	if l != nil {
		delete(l.watches, w)
		if len(l.watches) == 0 && m.loads[l.key] == l {
			l.end()
			delete(m.loads, l.key)
		}
	}
	m.mu.Unlock()
	if release != nil {
		release()
	}
}

// load is a module that is being fetched.
type load struct {
	key     loadKey
	request fetch.Request
	timeout time.Duration
	end     context.CancelFunc

	// Guarded by Modules.mu.
	watches map[*Watch]bool
	failure string // of the last attempt
}

// pauses are those between attempts to get a module.
var pauses = retry.Pauses{First: time.Second, Longest: time.Minute, Growth: 2}

func (m *Modules) run(ctx context.Context, l *load) {
	defer l.end()
	loop := retry.Loop{Pauses: pauses, Reason: func(err error, again time.Duration) {
		m.log.Warn("a Wasm module cannot be had; it is tried again", "from", l.from(), "reason", err, "again_in", again.Round(time.Second))
	}}
	_ = loop.Until(ctx, func() error { return m.attempt(ctx, l) }) // it ends without success if nobody waits any more
}

// fails tells those who wait for a load why an attempt failed.
func (m *Modules) fails(l *load, why string) {
	m.mu.Lock()
	waiting := slices.Collect(maps.Keys(l.watches))
	l.failure = why
	for _, w := range waiting {
		w.failure = why
	}
	m.mu.Unlock()
	for _, w := range waiting {
		w.changed()
	}
}

// succeeds tells those who wait for a load that the module is there. The caller holds it.
func (m *Modules) succeeds(l *load, digest, image string) {
	m.mu.Lock()
	waiting := slices.Collect(maps.Keys(l.watches))
	versions := make(map[string]string, len(waiting))
	for _, w := range waiting {
		versions[w.plugin.Name] = w.plugin.Version
		delete(l.watches, w)
		w.path, w.load, w.failure = m.kept.Path(digest), nil, ""
		w.release, _ = m.kept.Use(digest) // it is there, for the caller holds it
	}
	m.kept.Note(l.key.place, modules.Asked{Module: digest, Image: image, Digest: l.request.Digest, Versions: versions})
	if m.loads[l.key] == l {
		delete(m.loads, l.key)
	}
	m.mu.Unlock()
	for _, w := range waiting {
		w.changed()
	}
}

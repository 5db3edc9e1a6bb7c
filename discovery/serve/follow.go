package serve

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

// follower applies batches to the configuration and has pushed what follows from them: a batch that comes while nothing is under way at
// once, and those that come meanwhile together, when it is done. So there is no delay to be set, neither too short under a storm nor too
// long for a single change; and what waits is never more than each resource once.
type follower struct {
	push     func(*mesh.Mesh, configstore.Step)
	config   *configstore.Store
	mesh     *mesh.Mesh
	first    *mesh.Mesh // what it follows while there is none; nil for nothing in particular
	revision prometheus.Gauge
	// keys fetches those that tokens are checked with; nil where nothing is fetched.
	keys *jwks.Keeper
	// trust knows who was revoked; nil where there are no certificates.
	trust *trust.Keeper

	mu      sync.Mutex
	waits   bool // there may be a batch without changes
	waiting configstore.Batch
	place   map[kinds.Key]int // of each resource among those that wait
	wake    chan struct{}
}

func newFollower(update func(*mesh.Mesh, configstore.Step), metrics prometheus.Registerer) *follower {
	f := &follower{
		push: update, config: configstore.New(), place: map[kinds.Key]int{}, wake: make(chan struct{}, 1),
		revision: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_discovery_revision", Help: "The revision that proxies are served."}),
	}
	metrics.MustRegister(f.revision)
	return f
}

// take puts a batch to those that wait. Of several changes to one resource the last counts.
func (f *follower) take(b configstore.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range b.Changes {
		if at, waits := f.place[c.Key]; waits {
			f.waiting.Changes[at] = c
			continue
		}
		f.place[c.Key] = len(f.waiting.Changes)
		f.waiting.Changes = append(f.waiting.Changes, c)
	}
	f.waits, f.waiting.Revision = true, b.Revision
	select {
	case f.wake <- struct{}{}:
	default: // who is woken takes everything
	}
}

// hears returns the function that takes batches of a source, and lets the engine time them.
func (f *follower) hears(engine *push.Engine) func(configstore.Batch) error {
	return func(b configstore.Batch) error {
		engine.Heard(b.Revision, b.Committed, len(b.Changes))
		f.take(b)
		return nil
	}
}

// all takes what waits, if anything does: who took it before may have been woken for more than it knew.
func (f *follower) all() (b configstore.Batch, some bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, some = f.waiting, f.waits
	f.waits, f.waiting = false, configstore.Batch{}
	clear(f.place)
	return b, some
}

// run pushes until the context ends.
func (f *follower) run(ctx context.Context) error {
	var keys <-chan struct{} // never, where nothing is fetched
	if f.keys != nil {
		keys = f.keys.News()
	}
	for {
		trusted := f.trusted()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
			if b, some := f.all(); some {
				f.apply(ctx, b)
			}
		case <-keys:
			if f.mesh != nil {
				f.pushNews()
			}
		case <-trusted:
			if f.mesh != nil {
				f.pushNews()
			}
		}
	}
}

func (f *follower) apply(ctx context.Context, b configstore.Batch) {
	b.Decode()
	step := f.config.Apply(b)
	built := mesh.Build(step, cmp.Or(f.mesh, f.first))
	if f.trust != nil {
		f.trust.ConfigureDomain(built.Config.GetTrustDomain(), built.Config.GetTrustDomainAliases())
	}
	f.mesh = f.withTrust(f.withKeys(ctx, built))
	f.push(f.mesh, step)
	f.revision.Set(float64(b.Revision))
}

// firstKeys is how long the first push after a start waits for keys that were never fetched. Proxies that come back have better ones than
// nobody's, which they would be given in the meantime.
const firstKeys = 5 * time.Second

// withKeys says which keys are needed, and takes those that there are.
func (f *follower) withKeys(ctx context.Context, m *mesh.Mesh) *mesh.Mesh {
	if f.keys == nil {
		return m
	}
	f.keys.Want(m.KeySources())
	if f.mesh == nil {
		ctx, cancel := context.WithTimeout(ctx, firstKeys)
		defer cancel()
		f.keys.Await(ctx)
	}
	return m.WithKeys(f.keys.Keys())
}

// withTrust takes in who was revoked, and which other meshes there are.
func (f *follower) withTrust(m *mesh.Mesh) *mesh.Mesh {
	if f.trust == nil {
		return m
	}
	state := f.trust.State()
	if state == nil {
		return m
	}
	return m.WithTrust(state.ForProxies())
}

// trusted is closed when something else is trusted.
func (f *follower) trusted() <-chan struct{} {
	if f.trust == nil {
		return nil
	}
	state, changed := f.trust.Watch()
	if state != nil && f.mesh != nil && f.withTrust(f.mesh) != f.mesh { // it came while something was pushed
		f.pushNews()
	}
	return changed
}

// pushNews has pushed what follows from keys that have come, or could not be fetched, and from what is trusted now.
func (f *follower) pushNews() {
	m := f.mesh
	if f.keys != nil {
		m = m.WithKeys(f.keys.Keys())
	}
	if m = f.withTrust(m); m != f.mesh {
		f.mesh = m
		f.push(m, f.config.Snapshot().FromItself())
	}
}

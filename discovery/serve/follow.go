package serve

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/gatewaynames"
	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/passage"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/kit/parallel"
	"github.com/pgmesh/pgmesh/kinds"
)

// follower applies batches to the configuration, and pushes the result. A batch that comes while
// nothing is under way is pushed at once; those that come meanwhile are pushed together after it.
// So there is no delay to configure, which would be too short in a storm or too long for a single
// change, and no resource waits more than once.
type follower struct {
	push     func(*mesh.Mesh, configstore.Step) // brings proxies, and machines, to a mesh
	config   *configstore.Store
	mesh     *mesh.Mesh
	first    *mesh.Mesh // what the first mesh follows; nil for nothing in particular
	revision prometheus.Gauge
	// keys fetches the keys for tokens; nil if none are fetched.
	keys *jwks.Keeper
	// names resolves those of networks' gateways; nil if none are resolved.
	names *gatewaynames.Keeper
	// trust knows who was revoked.
	trust trusted
	// passage records the way of revisions; nil if they are not traced.
	passage *passage.Recorder
	pushes  func() (push.Queue, []push.Push)

	mu      sync.Mutex
	waits   bool // a batch may wait that has no changes
	waiting kinds.Batch
	place   map[kinds.Key]int // the index of each resource in the waiting batch
	wake    chan struct{}     // has room for one signal
}

func newFollower(update func(*mesh.Mesh, configstore.Step), metrics prometheus.Registerer) *follower {
	f := &follower{
		push: update, config: configstore.New(), trust: nobodyTrusted{}, place: map[kinds.Key]int{}, wake: make(chan struct{}, 1),
		revision: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_discovery_revision", Help: "The revision that proxies are served."}),
	}
	metrics.MustRegister(f.revision)
	return f
}

// take adds a batch to the waiting one. Of several changes to a resource the last counts.
func (f *follower) take(b kinds.Batch) {
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
	f.passage.Arrived()
	f.waits, f.waiting.Revision = true, b.Revision
	f.waiting.InForce = append(f.waiting.InForce, b.InForce...)
	select {
	case f.wake <- struct{}{}:
	default: // whoever is woken takes everything
	}
}

// hears returns the function that takes batches of a source. It also tells the engine of their
// arrival.
func (f *follower) hears(engine *push.Engine) func(kinds.Batch) error {
	return func(b kinds.Batch) error {
		engine.Heard(b.Revision, b.Committed, len(b.Changes))
		f.take(b)
		return nil
	}
}

// all takes the waiting batch, if there is one. There may be none: an earlier call may have taken
// more than it was woken for.
func (f *follower) all() (b kinds.Batch, some bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, some = f.waiting, f.waits; some {
		f.passage.Taken(b)
	}
	f.waits, f.waiting = false, kinds.Batch{}
	clear(f.place)
	return b, some
}

// run pushes until the context ends.
func (f *follower) run(ctx context.Context) error {
	var keys, names <-chan struct{} // never receive if none are fetched, or resolved
	if f.keys != nil {
		keys = f.keys.News()
	}
	if f.names != nil {
		names = f.names.News()
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
		case <-names:
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

func (f *follower) apply(ctx context.Context, b kinds.Batch) {
	decode(b)
	step := f.config.Apply(b)
	built := mesh.Build(step, cmp.Or(f.mesh, f.first))
	f.trust.ConfigureDomain(built.Config.GetTrustDomain(), built.Config.GetTrustDomainAliases())
	f.mesh = f.withNames(f.withTrust(f.withKeys(ctx, built)))
	f.passage.Built()
	f.push(f.mesh, step)
	f.passage.Done(f.pushes)
	f.revision.Set(float64(b.Revision))
	b.TellInForce()
}

// decode decodes all specs on all processors, as translation needs most of them.
func decode(b kinds.Batch) {
	parallel.Each(len(b.Changes), func(i int) {
		if r := b.Changes[i].Resource; r != nil {
			r.Spec.Message()
		}
	})
}

// firstKeys is how long the first push after a start waits for keys that were never fetched.
// Proxies that come back have usable keys, and without waiting would be sent none in the meantime.
const firstKeys = 5 * time.Second

// withKeys says which keys are needed, and adds those that were fetched.
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

// withTrust adds who was revoked, and which other meshes are trusted.
func (f *follower) withTrust(m *mesh.Mesh) *mesh.Mesh {
	state, _ := f.trust.Watch()
	if state == nil {
		return m
	}
	return m.WithTrust(state.ForProxies())
}

// withNames says which names of gateways are to be resolved, and adds what they resolve to.
func (f *follower) withNames(m *mesh.Mesh) *mesh.Mesh {
	if f.names == nil {
		return m
	}
	f.names.Want(m.GatewayNames())
	return m.WithGatewayAddresses(f.names.Addresses())
}

// trusted returns a channel that is closed when what is trusted changes.
func (f *follower) trusted() <-chan struct{} {
	state, changed := f.trust.Watch()
	if state != nil && f.mesh != nil && f.withTrust(f.mesh) != f.mesh { // it changed during a push
		f.pushNews()
	}
	return changed
}

// pushNews pushes what follows from new keys, and from what is trusted now.
func (f *follower) pushNews() {
	m := f.mesh
	if f.keys != nil {
		m = m.WithKeys(f.keys.Keys())
	}
	if m = f.withNames(f.withTrust(m)); m != f.mesh {
		f.mesh = m
		f.push(m, f.config.Snapshot().FromItself())
	}
}

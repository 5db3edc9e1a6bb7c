package mcp

import (
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	client "github.com/pgmesh/pgmesh/mcp-client/mcp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/registry"
)

// mesh is what the other server has, and what the sink was told of it.
type mesh struct {
	*Registry

	client *client.Client

	mu        sync.Mutex // of the sink, too
	sink      registry.Sink
	has       map[kinds.Key]*kinds.Resource // as the server has them
	gone      map[kinds.Key]bool            // of has: what it has no more, and is not believed of yet
	given     map[kinds.Key]*kinds.Resource // what was made of has, by its keys there
	workloads *workloads
	claims    claims
	chain     *chain
	told      bool // Replace was called
	silence   *time.Timer
	lost      error   // why the server cannot be asked; nil while it can
	away      *string // what the sink was told of that; nil if it has to be told again
}

func newMesh(r *Registry, sink registry.Sink) *mesh {
	return &mesh{
		Registry: r, sink: sink, has: map[kinds.Key]*kinds.Resource{}, gone: map[kinds.Key]bool{}, given: map[kinds.Key]*kinds.Resource{},
		workloads: newWorkloads(), claims: claims{}, chain: newChain(sink),
	}
}

// apply takes a batch of the server.
func (m *mesh) apply(b kinds.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	touched := map[kinds.Key]bool{}
	ours := m.ofPgmesh()
	for _, c := range b.Changes {
		m.take(c, ours, touched)
	}
	m.current(touched)
	return nil
}

// synced is called when all was applied that the server has. If that was nothing new, there was no
// batch.
func (m *mesh) synced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current(map[kinds.Key]bool{})
}

// current tells what follows now that the server has said all.
func (m *mesh) current(touched map[kinds.Key]bool) {
	m.silence.Stop()
	m.lost = nil
	m.release(touched)
	m.tell(touched)
	m.tellAway()
}

// ofPgmesh reports whether the server says where its resources come from. Anybody's annotations may
// say so at others.
func (m *mesh) ofPgmesh() bool {
	s := m.client.Status()
	return strings.HasPrefix(s.Server, mcpv1.Identifier) && s.Protocol != client.Legacy
}

// take takes a change. What is missing of a registry of the server's may be there.
func (m *mesh) take(c kinds.Change, ours bool, touched map[kinds.Key]bool) {
	had := m.has[c.Key]
	switch {
	case c.Resource == nil && had == nil:
	case c.Resource == nil && m.chain.unsure(had.Origin()):
		m.gone[c.Key] = true
	case c.Resource == nil:
		m.forget(c.Key, touched)
	default:
		delete(m.gone, c.Key)
		r := c.Resource
		if !ours || r.Origin() == "" {
			r = withoutOrigin(r)
		}
		m.touch(had, touched)
		m.unindex(had)
		m.has[c.Key] = r
		m.index(r)
		m.touch(r, touched)
	}
}

func (m *mesh) forget(k kinds.Key, touched map[kinds.Key]bool) {
	had := m.has[k]
	m.touch(had, touched)
	m.unindex(had)
	delete(m.has, k)
	delete(m.gone, k)
}

// release believes that what is gone is gone, once the server has read the registry that had it.
func (m *mesh) release(touched map[kinds.Key]bool) {
	for k := range m.gone {
		if !m.chain.unsure(m.has[k].Origin()) {
			m.forget(k, touched)
		}
	}
}

func (m *mesh) index(r *kinds.Resource) {
	switch {
	case m.chain.circular(r.Origin()):
	case r.Kind == workloadEntry:
		m.workloads.add(r)
	case r.Kind == serviceEntry:
		m.workloads.addSelector(r)
		m.claims.add(r)
	}
}

func (m *mesh) unindex(r *kinds.Resource) {
	switch {
	case r == nil:
	case r.Kind == workloadEntry:
		m.workloads.remove(r)
	case r.Kind == serviceEntry:
		m.workloads.removeSelector(r)
		m.claims.remove(r)
	}
}

// touch notes what is to be made anew where a resource comes or goes.
func (m *mesh) touch(r *kinds.Resource, touched map[kinds.Key]bool) {
	if r == nil {
		return
	}
	touched[r.Key()] = true
	switch r.Kind {
	case workloadEntry:
		m.workloads.eachSelecting(r, func(k kinds.Key) { touched[k] = true })
	case serviceEntry:
		m.claims.eachRival(r, func(k kinds.Key) { touched[k] = true })
	}
}

// tell tells the sink what follows from what was touched: everything at first, and when a registry
// of the server's has become sure of which it was not.
func (m *mesh) tell(touched map[kinds.Key]bool) {
	changes := make([]kinds.Change, 0, len(touched))
	for k := range touched {
		if c, is := m.remake(k); is {
			changes = append(changes, c)
		}
	}
	switch {
	case m.chain.refused != nil:
		m.told = false
	case !m.told || m.chain.relieved():
		m.chain.blame(m.sink)
		m.told, m.away = true, nil
		m.sink.Replace(m.everything())
	case len(changes) > 0:
		m.sink.Apply(changes)
	}
}

// remake makes anew what the sink is to be given of a resource, and reports whether it has changed.
func (m *mesh) remake(k kinds.Key) (kinds.Change, bool) {
	before, now := m.given[k], m.make(m.has[k])
	switch {
	case now == nil && before == nil:
		return kinds.Change{}, false
	case now == nil:
		delete(m.given, k)
		return kinds.Change{Key: before.Key()}, true
	case before != nil && registry.Same(before, now):
		return kinds.Change{}, false
	}
	m.given[k] = now
	return kinds.Change{Key: now.Key(), Resource: now}, true
}

func (m *mesh) everything() []*kinds.Resource {
	all := make([]*kinds.Resource, 0, len(m.given))
	for _, r := range m.given {
		all = append(all, r)
	}
	return all
}

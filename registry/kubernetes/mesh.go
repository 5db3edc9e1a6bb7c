package kubernetes

import (
	"context"
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
	"github.com/pgmesh/pgmesh/registry/kubernetes/follow"
)

// mesh is what the mesh has of a cluster. Lists tell it what there is, and it tells the sink what has
// followed, from one goroutine: what comes while it does so is told together.
type mesh struct {
	*Registry

	sink   registry.Sink
	client *client.Client
	wake   chan struct{} // there is something to tell
	again  chan struct{} // there may be other kinds

	mu          sync.Mutex
	groups      []*group
	content     *content
	own         *group                    // that of services; nil if they are not read
	made        map[key][]*kinds.Resource // of services
	bad         map[string]error          // what cannot be made a resource, by entry
	spoilt      map[string]error          // what is to be told of that; nil: no more
	config      map[*kinds.Kind]map[kinds.Key]*kinds.Resource
	altered     map[kinds.Key]bool            // of config
	choosing    choosing                      // of config
	listing     map[kinds.Key]*kinds.Resource // what of config lists Pods, as it was told
	namespaces  map[key]*string               // the labels of each
	lending     map[string]*lending           // by namespace
	authorities authorities                   // that config names
	told        bool                          // Replace was called
	away        string                        // what was told
}

func newMesh(r *Registry, sink registry.Sink, c *client.Client) *mesh {
	m := &mesh{
		Registry: r, sink: sink, client: c, wake: make(chan struct{}, 1), again: make(chan struct{}, 1), content: newContent(r.settings),
		made: map[key][]*kinds.Resource{}, bad: map[string]error{}, spoilt: map[string]error{},
		config: map[*kinds.Kind]map[kinds.Key]*kinds.Resource{}, altered: map[kinds.Key]bool{}, choosing: choosing{}, listing: map[kinds.Key]*kinds.Resource{}, namespaces: map[key]*string{},
		lending: map[string]*lending{},
	}
	m.content.changed, m.content.moved = m.podChanged, m.nodeMoved
	return m
}

// do changes what is known.
func (m *mesh) do(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run tells the sink what has followed, until the context ends.
func (m *mesh) run(ctx context.Context) error {
	for {
		select {
		case <-m.wake:
			m.tell()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// news is what the sink is to be told.
type news struct {
	bad     map[string]error
	secrets map[string][]registry.Secret // of namespaces of which some have changed
	all     []*kinds.Resource            // of a Replace
	replace bool
	changes []kinds.Change
	away    error
	moved   bool // away is other than it was
}

func (m *mesh) tell() {
	n := m.news()
	for entry, err := range n.bad {
		m.sink.Bad(entry, err)
	}
	for namespace, all := range n.secrets {
		m.sink.Secrets(namespace, all)
	}
	switch {
	case n.replace:
		m.sink.Replace(n.all)
	case len(n.changes) > 0:
		m.sink.Apply(n.changes)
	}
	if n.moved {
		m.sink.Away(n.away)
	}
}

func (m *mesh) news() (n news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n.away = m.reasons()
	text := ""
	if n.away != nil {
		text = n.away.Error()
	}
	n.moved, m.away = text != m.away, text
	if !m.settled() {
		return n
	}
	changes := append(m.remake(), m.reconfigure()...)
	n.secrets = m.relend()
	if n.replace = m.admit(); n.replace {
		n.all = m.everything()
		m.told = true
	} else {
		n.changes = changes
	}
	n.bad, m.spoilt = m.spoilt, map[string]error{}
	return n
}

// settled reports whether everything was read at first that can be. Until then there is nothing to
// tell: what is not read yet must not be taken for gone.
func (m *mesh) settled() bool {
	others := m.gives()
	return m.told || !slices.ContainsFunc(m.groups, func(g *group) bool { return !g.read() && g.refused(others) == nil })
}

// admit reports whether some group was read for the first time: then there is another everything.
// What the cluster does not give keeps what was known of it.
func (m *mesh) admit() (anew bool) {
	anew = !m.told
	others := m.gives()
	for _, g := range m.groups {
		switch refused := g.refused(others); {
		case g.read():
			anew = anew || !g.given
			g.given = true
			m.spoil(g, nil)
		case refused != nil:
			m.spoil(g, refused)
		}
	}
	return anew
}

// spoil says that nothing of a group can be used.
func (m *mesh) spoil(g *group, err error) {
	if g.bad != (err != nil) {
		g.bad = err != nil
		m.spoilt[g.entry] = err
	}
}

// blame says that an entry cannot be used; nil that it can.
func (m *mesh) blame(entry string, err error) {
	before, is := m.bad[entry]
	switch {
	case err == nil && is:
		delete(m.bad, entry)
	case err != nil && !is && len(m.bad) >= follow.MostObjects:
		return
	case err != nil && (!is || before.Error() != err.Error()):
		m.bad[entry] = err
	default:
		return
	}
	m.spoilt[entry] = err
}

func (m *mesh) everything() []*kinds.Resource {
	all := make([]*kinds.Resource, 0, len(m.made))
	for _, resources := range m.made {
		all = append(all, resources...)
	}
	for _, of := range m.config {
		for k := range of {
			all = append(all, m.configured(k))
		}
	}
	return all
}

// remake makes touched services anew, once all that they are made of is read.
func (m *mesh) remake() []kinds.Change {
	if m.own == nil || !m.own.read() {
		return nil
	}
	var changes []kinds.Change
	for k := range m.content.touched {
		now, err := panics.Receive(func() ([]*kinds.Resource, error) { return m.content.resources(k) })
		if m.blame(serviceEntry(k), err); err != nil {
			continue
		}
		changes = append(changes, registry.Changes(m.made[k], now)...)
		if m.made[k] = now; now == nil {
			delete(m.made, k)
		}
	}
	clear(m.content.touched)
	return changes
}

package push

import (
	"maps"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// asked notes the names that a proxy asks for, and those that it has from an earlier stream. A
// proxy on demand is offered at once what follows from them.
func (e *Engine) asked(s *ads.Stream, typeURL string, names []string, held map[string]string) {
	if typeURL != VirtualHostType && typeURL != ClusterType {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[s.Subscriber()]
	if m == nil || !m.mayAsk() {
		return
	}
	m.wants().Hear(typeURL, names, held)
	if m.class != nil {
		m.offer(e, nil)
	}
}

// unasked notes that a proxy no longer asks for a name.
func (e *Engine) unasked(s *ads.Stream, typeURL, name string) {
	if typeURL != VirtualHostType {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.members[s.Subscriber()]; m != nil && m.demand != nil {
		m.demand.Forget(name)
	}
}

// mayAsk reports whether the proxy is on demand, or may turn out to be when there is a mesh.
func (m *member) mayAsk() bool { return m.key.divided && (m.class == nil || m.class.whole != nil) }

// wants returns what the proxy has asked for.
func (m *member) wants() *demand.Asked {
	if m.demand == nil {
		m.demand = demand.NewAsked()
	}
	return m.demand
}

// given returns what the proxy is to have of its class's resources.
func (m *member) given() *served.Snapshot {
	c := m.class
	if c.whole == nil {
		m.demand = nil
		return c.current
	}
	if m.demand == nil && m.offered != nil { // until now it was given everything
		m.wants().Keep(m.offered.Sets)
	}
	sets := c.whole.Part(m.wants())
	if m.offered != nil && maps.Equal(sets, m.offered.Sets) {
		return m.offered
	}
	return &served.Snapshot{Revision: c.current.Revision, Push: c.current.Push, Sets: sets}
}

// narrow prepares the class's resources for picking parts of them, if its proxies are on demand.
func (c *class) narrow() {
	if !c.of.configured.OnDemand {
		return
	}
	if c.whole == nil {
		c.whole = demand.NewWhole()
	}
	if c.sharedView.asked == nil {
		c.sharedView.asked = demand.NewHosts()
	}
	c.whole.Update(c.sets, c.sharedView.asked)
}

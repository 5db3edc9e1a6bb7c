package push

import "github.com/pgmesh/pgmesh/discovery/mesh"

// join puts a proxy into its class, and creates the class for its first proxy.
func (e *Engine) join(m *member) {
	e.configure(m)
	c := e.classes[m.key]
	if c == nil {
		c = newClass(nil)
		c.sharedView = e.sharedViewOf(m, e.sharedViews, nil)
		c.sharedView.classes[c] = true
		e.classes[m.key] = c
	}
	c.enter(m)
	if c.current == nil {
		c.sharedView.update(e)
		c.update(e)
		e.journal.joined()
		e.reportClassProblems()
	}
}

// configure finds the proxy's class.
func (e *Engine) configure(m *member) {
	m.configured = m.key.served(e.mesh.Configured(m.proxy), e.scopedFrom)
	m.key.Class = e.mesh.Class(m.configured)
}

// enter makes a proxy a member of the class.
func (c *class) enter(m *member) {
	c.members[m] = true
	if m.class = c; c.of == nil {
		c.of = m
	}
}

// quit takes a proxy out of its class. An empty class is dropped, and so is a shared view without
// classes.
func (e *Engine) quit(m *member) {
	c := m.class
	if c == nil {
		return
	}
	m.class = nil
	delete(c.members, m)
	if len(c.members) > 0 {
		c.of = anyOf(c.members) // the proxy that left may be unlike them in the next mesh
		return
	}
	delete(e.classes, m.key)
	if delete(c.sharedView.classes, c); len(c.sharedView.classes) == 0 {
		delete(e.sharedViews, c.sharedView.key)
	}
	if m.key.Type == mesh.Router || len(c.unpatched)+len(c.sharedView.routes.unpatched) > 0 { // its problems may end with it
		e.reportClassProblems()
	}
}

func anyOf[T comparable](set map[T]bool) (one T) {
	for one = range set {
		break
	}
	return one
}

// sharedViewOf finds the shared view of a new class in among. If there is none yet, it makes one
// that starts with what old has.
func (e *Engine) sharedViewOf(m *member, among map[sharedViewKey]*sharedView, old *sharedView) *sharedView {
	k := sharedViewKeyOf(m.key)
	x := among[k]
	if x == nil {
		if x = e.sharedViews[k]; x == nil {
			x = old.clone()
		}
		x.key, x.classes = k, map[*class]bool{}
		among[k] = x
	}
	return x
}

// sortsLike reports whether every proxy stays in its class.
func (e *Engine) sortsLike(before *mesh.Mesh) bool {
	if !e.mesh.SortsLike(before) {
		return false
	}
	for _, m := range e.members {
		if !e.mesh.FindsLike(before, m.proxy) && e.mesh.Class(m.configured) != m.key.Class {
			return false
		}
	}
	return true
}

// regroup sorts all proxies into classes by the new mesh. A class that still has members keeps what
// it has. A new one starts with what a member of it had before.
func (e *Engine) regroup() {
	classes, sharedViews := make(map[classKey]*class, len(e.classes)), make(map[sharedViewKey]*sharedView, len(e.sharedViews))
	for _, m := range e.members {
		e.configure(m)
		c := classes[m.key]
		if c == nil {
			if c = e.classes[m.key]; c == nil {
				c = newClass(m.class)
			}
			c.of, c.members, c.sharedView = nil, map[*member]bool{}, e.sharedViewOf(m, sharedViews, c.sharedView)
			c.sharedView.classes[c] = true
			classes[m.key] = c
		}
		c.enter(m)
	}
	e.classes, e.sharedViews = classes, sharedViews
}

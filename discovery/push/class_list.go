package push

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// classList is what an engine has at one turn, for finding out whom resources concern without its
// lock.
type classList struct {
	turn    uint64
	mesh    *mesh.Mesh
	classes []listedClass
	moves   map[*mesh.Scope]scopeMove
}

// listedClass is a class with the inputs that tell what concerns its proxies. None of them changes.
type listedClass struct {
	class    *class
	router   classKey // of routers that are not known yet
	proxy    *mesh.Proxy
	scope    *mesh.Scope
	frontend *mesh.Frontend
	targets  []mesh.Target
}

// classList returns what the engine has, if that may be other than at an earlier turn. It leaves
// out the keys of classes that are known already.
func (e *Engine) classList(since uint64, known map[*class]*knownClass) (*classList, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mesh == nil || e.turn == since {
		return nil, false
	}
	now := &classList{turn: e.turn, mesh: e.mesh, classes: make([]listedClass, 0, len(e.classes)), moves: e.scopeMoves.take()}
	for key, c := range e.classes {
		x := c.sharedView
		if x.scope == nil {
			continue // the translation for it panicked
		}
		seen := listedClass{class: c, proxy: c.of.configured, scope: x.scope, frontend: x.frontend, targets: c.from.targets}
		if key.Type == mesh.Router && known[c] == nil {
			seen.router = key
		}
		now.classes = append(now.classes, seen)
	}
	return now, true
}

// hides reports whether the scope does not show a service that the workloads serve.
func (a *listedClass) hides() bool {
	return slices.ContainsFunc(a.targets, func(t mesh.Target) bool {
		s := a.scope.Service(t.Service.Hostname)
		return s == nil || s.Namespace != t.Service.Namespace
	})
}

// number tells the members of classes the numbers of their circles.
func (e *Engine) number(moved []*knownClass) {
	if len(moved) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range moved {
		a.class.circle = a.circle.number
	}
}

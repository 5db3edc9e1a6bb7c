package push

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// countedScope is what the proxies of one scope see, as it is counted in [concern.shown].
type countedScope struct {
	*mesh.ScopeCount

	index int
	used  bool
}

// countedScopeOf finds the counted one of a scope.
func (a *Audiences) countedScopeOf(scope *mesh.Scope) *countedScope {
	name := scope.Name()
	s := a.scopes[name]
	if s == nil {
		s = &countedScope{ScopeCount: mesh.NewScopeCount(), index: len(a.scopes) + len(a.free)}
		if last := len(a.free) - 1; last >= 0 {
			s.index, a.free = a.free[last], a.free[:last]
		}
		a.scopes[name] = s
	}
	return s
}

// follow goes on to a scope, by the moves that are known.
func (s *countedScope) follow(now *classList, to *mesh.Scope, known *mesh.Differences, a *Audiences) {
	count := func(of kinds.Key, n int) {
		if c := a.concern(of); c.count(s.index, n) {
			a.doubt(c)
		}
	}
	for range now.moves {
		move, is := now.moves[s.Scope()]
		if s.Scope() == to || !is {
			break
		}
		s.Follow(now.mesh, move.to, move.since, known, count)
	}
	s.Follow(now.mesh, to, nil, known, count)
}

// dropScopes drops the scopes that no class has any more.
func (a *Audiences) dropScopes() {
	for name, s := range a.scopes {
		if s.used {
			s.used = false
			continue
		}
		for _, c := range a.resources {
			if s.index < len(c.shown) && c.shown[s.index] > 0 {
				c.shown[s.index] = 0
				a.doubt(c)
			}
		}
		delete(a.scopes, name)
		a.free = append(a.free, s.index)
	}
}

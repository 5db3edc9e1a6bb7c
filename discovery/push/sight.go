package push

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// sight is what the proxies of one scope see, as it is counted in [concern.shown].
type sight struct {
	*mesh.Sight

	index int
	used  bool
}

// sightOf finds the sight for a scope.
func (a *Audiences) sightOf(scope *mesh.Scope) *sight {
	name := scope.Name()
	s := a.sights[name]
	if s == nil {
		s = &sight{Sight: mesh.NewSight(), index: len(a.sights) + len(a.free)}
		if last := len(a.free) - 1; last >= 0 {
			s.index, a.free = a.free[last], a.free[:last]
		}
		a.sights[name] = s
	}
	return s
}

// follow goes on to a scope, by the moves that are known.
func (s *sight) follow(now *attendance, to *mesh.Scope, known *mesh.Differences, a *Audiences) {
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

// dropSights drops the sights that no class has any more.
func (a *Audiences) dropSights() {
	for name, s := range a.sights {
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
		delete(a.sights, name)
		a.free = append(a.free, s.index)
	}
}

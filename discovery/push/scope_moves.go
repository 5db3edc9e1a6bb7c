package push

import "github.com/pgmesh/pgmesh/discovery/mesh"

// scopeMoves remember which scope followed which, and how the two differ, until somebody asks whom
// resources concern. Who does not know a move has to compare the scopes.
type scopeMoves struct {
	wanted bool // somebody asks from time to time
	next   map[*mesh.Scope]scopeMove
}

type scopeMove struct {
	to    *mesh.Scope
	since *mesh.ScopeChange
}

// mostMoves bounds how many moves are remembered: each keeps an old scope in memory.
const mostMoves = 1000

// add remembers a move. Shared views of one scope tell of it several times.
func (s *scopeMoves) add(from, to *mesh.Scope, since *mesh.ScopeChange) {
	if !s.wanted || from == to {
		return
	}
	if len(s.next) >= mostMoves {
		s.next = nil // nobody has asked for long
	}
	if s.next == nil {
		s.next = map[*mesh.Scope]scopeMove{}
	}
	s.next[from] = scopeMove{to, since}
}

// take returns what was remembered, and remembers from here on.
func (s *scopeMoves) take() map[*mesh.Scope]scopeMove {
	taken := s.next
	s.wanted, s.next = true, nil
	return taken
}

package push

import (
	"slices"
	"sync"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// Status is what the mesh decides of the status of a resource of the Gateway API; nil if it has none
// any more.
type Status struct {
	Of kinds.Key
	*gatewayapi.Status
}

// Statuses knows which statuses were told. An engine has one, for one reporter. A mesh without the
// Gateway API costs nothing here.
type Statuses struct {
	engine *Engine

	mu   sync.Mutex
	told mesh.APIStatuses
}

// Statuses returns those of the engine.
func (e *Engine) Statuses() *Statuses { return e.statuses }

// Reset makes the next call of Changed tell of all statuses.
func (s *Statuses) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = mesh.APIStatuses{}
}

// Changed returns the statuses that differ from what an earlier call has returned, sorted by
// resource. They are of the newest push, or of a later one than the caller knows of.
func (s *Statuses) Changed() (out []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.engine.apiStatuses()
	for of, status := range now.Since(s.told) {
		out = append(out, Status{of, status})
	}
	s.told = now
	slices.SortFunc(out, func(a, b Status) int { return mesh.CompareKeys(a.Of, b.Of) })
	return out
}

func (e *Engine) apiStatuses() mesh.APIStatuses {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mesh.APIStatuses()
}

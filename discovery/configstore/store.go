// Package configstore holds the configuration that discovery works from. Batches go in, each
// applied whole or not at all. Immutable snapshots come out, which every later stage reads without
// locks.
package configstore

import (
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
)

// Store has the current snapshot, and makes the next one from it. It is safe for concurrent use.
type Store struct {
	mu      sync.RWMutex
	current *Snapshot
}

// New returns an empty store at revision 0.
func New() *Store {
	return &Store{current: &Snapshot{sets: map[*kinds.Kind]*set{}}}
}

// Snapshot returns the state after the last applied batch.
func (s *Store) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current
}

// Apply applies a batch, and returns the new snapshot as a step. Of several changes to one key the
// last one counts. Kinds that the batch does not change share their memory with the snapshot
// before.
func (s *Store) Apply(batch kinds.Batch) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := s.current.step(batch)
	s.current = step.Snapshot
	return step
}

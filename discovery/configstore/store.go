// Package configstore holds the configuration that discovery works from. Batches go in, each
// applied whole or not at all. Immutable snapshots come out, which every later stage reads without
// locks.
package configstore

import (
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// Change is a resource after a change. A nil Resource removes the key.
type Change = mcp.Change

// Batch is what one revision changed. The first batch of a store has the whole state; each later
// one has what differs.
type Batch = mcp.Batch

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
func (s *Store) Apply(batch Batch) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := s.current.step(batch)
	s.current = step.Snapshot
	return step
}

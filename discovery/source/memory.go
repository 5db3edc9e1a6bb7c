package source

import (
	"context"
	"errors"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
)

// Memory is configuration that a program gives: one that embeds discovery, or a test. Before the
// first Apply or Replace it has nothing to give, and proxies wait. It is safe for concurrent use.
type Memory struct {
	mu       sync.Mutex
	given    bool  // there was an Apply or Replace
	revision int64 // counts changes
	held     map[kinds.Key]*kinds.Resource
	apply    func(kinds.Batch) error // of the current Run
	failed   chan error              // the error of the current Run
}

// NewMemory returns a source without configuration.
func NewMemory() *Memory { return &Memory{held: map[kinds.Key]*kinds.Resource{}} }

// Name is "memory".
func (*Memory) Name() string { return "memory" }

// Ready says whether anything was given yet.
func (m *Memory) Ready() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.given {
		return "", errors.New("the program has given no configuration yet")
	}
	return "", nil
}

// Apply makes changes, all at once. A change without a resource removes its key. When it returns, a
// running discovery has translated them and is sending them to its proxies.
func (m *Memory) Apply(changes ...kinds.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(changes)
}

// Replace makes these resources the only ones.
func (m *Memory) Replace(resources ...*kinds.Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[kinds.Key]*kinds.Resource, len(resources))
	for _, r := range resources {
		next[r.Key()] = r
	}
	m.change(Difference(m.held, next))
}

func (m *Memory) change(changes []kinds.Change) {
	m.given = true
	m.revision++
	for _, c := range changes {
		if c.Resource == nil {
			delete(m.held, c.Key)
		} else {
			m.held[c.Key] = c.Resource
		}
	}
	if m.apply != nil {
		m.hand(changes)
	}
}

// Run hands on what is there, and then each change. Only one Run may be active.
func (m *Memory) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	m.mu.Lock()
	m.apply, m.failed = apply, make(chan error, 1)
	failed := m.failed
	if m.given {
		m.hand(changesOf(m.held))
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.apply = nil
		m.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return err
	}
}

func (m *Memory) hand(changes []kinds.Change) {
	if err := m.apply(kinds.Batch{Revision: m.revision, Changes: changes}); err != nil {
		m.apply = nil
		m.failed <- err
	}
}

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
	ended    chan struct{}           // closed when the current Run ends
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
	handed := m.change(changes)
	m.mu.Unlock()
	handed.await()
}

// Replace makes these resources the only ones. It returns when Apply would.
func (m *Memory) Replace(resources ...*kinds.Resource) {
	next := make(map[kinds.Key]*kinds.Resource, len(resources))
	for _, r := range resources {
		next[r.Key()] = r
	}
	m.mu.Lock()
	handed := m.change(kinds.Difference(m.held, next))
	m.mu.Unlock()
	handed.await()
}

func (m *Memory) change(changes []kinds.Change) handed {
	m.given = true
	m.revision++
	for _, c := range changes {
		if c.Resource == nil {
			delete(m.held, c.Key)
		} else {
			m.held[c.Key] = c.Resource
		}
	}
	if m.apply == nil {
		return handed{}
	}
	return m.hand(changes)
}

// Run hands on what is there, and then each change. Only one Run may be active.
func (m *Memory) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	m.mu.Lock()
	m.apply, m.failed, m.ended = apply, make(chan error, 1), make(chan struct{})
	failed, ended := m.failed, m.ended
	if m.given {
		m.hand(changesOf(m.held))
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.apply = nil
		m.mu.Unlock()
		close(ended)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return err
	}
}

func (m *Memory) hand(changes []kinds.Change) handed {
	inForce := make(chan struct{})
	if err := m.apply(kinds.Batch{Revision: m.revision, Changes: changes, InForce: []func(){func() { close(inForce) }}}); err != nil {
		m.apply = nil
		m.failed <- err
	}
	return handed{inForce, m.ended}
}

// handed is a batch that was handed on. The zero value was handed to nobody.
type handed struct{ inForce, ended chan struct{} }

// await waits until the batch is in force, or never will be.
func (h handed) await() {
	if h.ended == nil {
		return
	}
	select {
	case <-h.inForce:
	case <-h.ended:
	}
}

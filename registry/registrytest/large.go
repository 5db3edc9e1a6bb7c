package registrytest

import (
	"runtime"
	"sync"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// Services is how many services a large registry has: PGMESH_REGISTRY_SERVICES=10000 is what is
// promised.
func Services(t *testing.T, otherwise int) int {
	t.Helper()
	return number(t, "PGMESH_REGISTRY_SERVICES", otherwise)
}

// Timer takes what a large registry tells, and says when it has told of a change.
type Timer struct {
	// Read is closed once everything was told.
	Read chan struct{}

	mu      sync.Mutex
	all     map[string]*kinds.Resource
	changes int
	waiting string
	holds   func(*networking.ServiceEntry) bool
	reached chan time.Time
}

// NewTimer returns a timer that has nothing yet.
func NewTimer() *Timer {
	return &Timer{Read: make(chan struct{}), reached: make(chan time.Time, 1)}
}

// Replace implements registry.Sink.
func (m *Timer) Replace(all []*kinds.Resource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = make(map[string]*kinds.Resource, len(all))
	for _, r := range all {
		m.all[r.Name] = r
	}
	close(m.Read)
}

// Apply implements registry.Sink.
func (m *Timer) Apply(changes []kinds.Change) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes += len(changes)
	for _, c := range changes {
		m.all[c.Key.Name] = c.Resource
		if c.Key.Name == m.waiting && c.Resource != nil && m.holds(c.Resource.Spec.Message().(*networking.ServiceEntry)) {
			m.waiting = ""
			m.reached <- now
		}
	}
}

// Bad implements registry.Sink.
func (m *Timer) Bad(string, error) {}

// Secrets implements registry.Sink.
func (m *Timer) Secrets(string, []registry.Secret) {}

// Holds implements registry.Sink.
func (m *Timer) Holds() bool { return false }

// Away implements registry.Sink.
func (m *Timer) Away(error) {}

// Await returns a channel that has the time when the resource came to fulfil a condition.
func (m *Timer) Await(name string, holds func(*networking.ServiceEntry) bool) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting, m.holds = name, holds
	return m.reached
}

// All are the resources that there are.
func (m *Timer) All() map[string]*kinds.Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all
}

// Changes is how many changes were told.
func (m *Timer) Changes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// Heap is what the heap has in use, in bytes.
func Heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

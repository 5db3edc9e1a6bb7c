package limits

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Memory is a budget of memory that all clients of a server share. No client gets more than half of
// it while others want some.
type Memory struct {
	total   int
	free    int           // how many bytes need no reservation
	within  time.Duration // how long to wait for memory
	outside bool          // waiting takes no memory

	full func(holder string, used, total int) string // says what to do when nothing is left

	// Waited is called with how long a client had to wait, and Refused when a client was refused.
	// Either may be nil.
	Waited  func(time.Duration)
	Refused func()

	mu      sync.Mutex
	used    int
	holders map[string]int
	waiting []*waiter // in the order in which they came
}

// waiter is a client that waits for memory.
type waiter struct {
	holder string
	size   int
	got    chan struct{}
}

const (
	// memoryFree needs no reservation. It is the size of a request of a proxy that reconnects in a
	// mesh of a thousand services.
	memoryFree = 512 << 10
	// memoryWithin is how long a client waits for memory.
	memoryWithin = 5 * time.Second
)

// NewMemory returns a budget of this many bytes; 0 means no limit. The function says what to do
// when nothing is left.
func NewMemory(total int, full func(holder string, used, total int) string) *Memory {
	return &Memory{total: total, free: memoryFree, within: memoryWithin, full: full, holders: map[string]int{}}
}

// Take reserves memory for a holder, and returns the function that releases it. It waits for a
// while, and then fails with a status.
func (m *Memory) Take(ctx context.Context, holder string, size int) (release func(), err error) {
	if m == nil || m.total <= 0 || size <= m.free {
		return func() {}, nil
	}
	size = min(size, m.total) // what is larger than the budget takes all of it
	w, crowded := m.enter(holder, size)
	switch {
	case crowded:
		return nil, m.refuse(holder)
	case w != nil:
		if err := m.await(ctx, w); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(func() { m.give(holder, size) }), nil
}

// enter reserves memory, or queues for it. A waiting message is in memory, too, if not at its full
// size. So the queue holds at most twice the budget, and each holder once.
func (m *Memory) enter(holder string, size int) (w *waiter, crowded bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fits(holder, size) && len(m.waiting) == 0 {
		m.hold(holder, size)
		return nil, false
	}
	all, mine := size, 0
	for _, other := range m.waiting {
		if all += other.size; other.holder == holder {
			mine += other.size
		}
	}
	if !m.outside && (all > 2*m.total || mine+size > m.total) {
		return nil, true
	}
	w = &waiter{holder, size, make(chan struct{})}
	m.waiting = append(m.waiting, w)
	m.serve() // one that waits for its own share holds nobody up
	return w, false
}

// refuse refuses a client.
func (m *Memory) refuse(holder string) error {
	if m.Refused != nil {
		m.Refused()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return exhausted(m.within, m.full(holder, m.holders[holder], m.total))
}

// await waits until serve has reserved the memory, or for the longest time allowed.
func (m *Memory) await(ctx context.Context, w *waiter) error {
	began, timer := time.Now(), time.NewTimer(m.within)
	defer timer.Stop()
	select {
	case <-w.got:
		if m.Waited != nil {
			m.Waited(time.Since(began))
		}
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	m.mu.Lock()
	i := slices.Index(m.waiting, w)
	if i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
		m.serve()
	}
	m.mu.Unlock()
	switch {
	case i < 0: // its turn came at the last moment
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return m.refuse(w.holder)
}

// fits reports whether a holder may have more. Each may have half of the budget, and a holder that
// has nothing may have all of it.
func (m *Memory) fits(holder string, size int) bool {
	mine := m.holders[holder]
	return m.used+size <= m.total && (mine == 0 || mine+size <= m.total/2)
}

// hold counts memory as reserved. The caller holds the lock.
func (m *Memory) hold(holder string, size int) {
	m.used += size
	m.holders[holder] += size
}

func (m *Memory) give(holder string, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= size
	if m.holders[holder] -= size; m.holders[holder] == 0 {
		delete(m.holders, holder)
	}
	m.serve()
}

// serve gives what is free to those that wait, in order. One for which not enough is free holds up
// those behind it; one that has its share already does not.
func (m *Memory) serve() {
	for i := 0; i < len(m.waiting); {
		w := m.waiting[i]
		if m.fits(w.holder, w.size) {
			m.hold(w.holder, w.size)
			close(w.got)
			m.waiting = slices.Delete(m.waiting, i, i+1)
			continue
		}
		if m.holders[w.holder] == 0 {
			return
		}
		i++
	}
}

// Used returns how much is reserved.
func (m *Memory) Used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// exhausted is the status of a client that is refused for now.
func exhausted(retry time.Duration, message string) error {
	s := status.New(codes.ResourceExhausted, message)
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)}); err == nil {
		s = detailed
	}
	return s.Err()
}

// MiB formats a number of bytes for people.
func MiB(bytes int) string { return fmt.Sprintf("%d MiB", bytes>>20) }

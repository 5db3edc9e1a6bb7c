package catalog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// looking is a session with services of which none is watched.
func looking(services ...string) *session {
	s := &session{queue: newQueue(), names: names{}, services: map[string]*known{}, at: map[string]map[string]int{}}
	s.watches = &watches{session: s, running: map[string]*watch{}}
	for _, name := range services {
		s.names[name] = []string{}
	}
	s.nodes = make([]node, len(services)+1) // more than there are services, so that those are looked at
	return s
}

// look looks at some of what is queued.
func (s *session) lookAtSome(t *testing.T, many int) {
	t.Helper()
	for range many {
		next, found, _ := s.queue.take(false)
		require.True(t, found)
		s.sweep.lookedAt(next.round)
	}
}

func (s *session) requireIdle(t *testing.T) {
	t.Helper()
	_, found, _ := s.queue.take(false)
	require.False(t, found)
}

// What changes while a sweep looks has it look at everything once more, and at nothing twice more.
func TestWhatChangesMeanwhileIsOneMoreRound(t *testing.T) {
	t.Parallel()
	s := looking("a", "b", "c", "d")
	s.sweep.want(s)
	s.lookAtSome(t, 3)
	s.sweep.want(s)
	s.lookAtSome(t, 4)
	require.Zero(t, s.sweep.left)
	s.requireIdle(t)
}

// What a round has begun to look at when the next begins does not count for that.
func TestAnEarlierLookDoesNotCount(t *testing.T) {
	t.Parallel()
	s := looking("a", "b")
	s.sweep.want(s)
	begun, _, _ := s.queue.take(false)
	s.sweep.want(s)
	s.sweep.lookedAt(begun.round)
	require.Equal(t, 2, s.sweep.left)
	s.lookAtSome(t, 2)
	require.Zero(t, s.sweep.left)
}

// While everything is read at first, a change is kept for later.
func TestASweepWaitsUntilEverythingIsRead(t *testing.T) {
	t.Parallel()
	s := looking("a", "b")
	s.unread = 1
	s.sweep.want(s)
	s.requireIdle(t)
	s.unread = 0
	s.sweep.begin(s)
	s.lookAtSome(t, 2)
	s.sweep.begin(s)
	s.requireIdle(t)
}

func TestASweepWithoutRestIsTired(t *testing.T) {
	t.Parallel()
	s := looking("a", "b")
	for round, tired := range []bool{false, true, true} {
		s.sweep.want(s)
		require.Equal(t, tired, s.sweep.tired.Load(), "round %d", round)
		s.lookAtSome(t, 1)
		s.sweep.want(s)
		s.sweep.begun = time.Now().Add(-time.Hour) // it has looked for an hour
		s.lookAtSome(t, 2)
	}
	s.sweep.begun, s.sweep.ended = time.Now().Add(-3*time.Second), time.Now().Add(-2*time.Second)
	s.sweep.want(s)
	require.False(t, s.sweep.tired.Load(), "it has rested for longer than it had looked")
}

// Package sourcetest holds a source of configuration to what all sources promise.
package sourcetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/kinds"
)

// Subject is a source, and what it reads in the hands of a test.
type Subject struct {
	Source source.Source
	// Put makes resources with these names the only ones that the source finds.
	Put func(names ...string)
}

// Contract tests a source. Open returns one that has found nothing yet.
func Contract(t *testing.T, open func(t *testing.T) Subject) {
	for _, promise := range []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"is ready once it has given the first batch", becomesReady},
		{"gives everything, and then what differs", givesDifferences},
		{"gives one batch at a time", givesOneAtATime},
		{"ends with the error of its user", endsWithItsUser},
		{"ends with its context", endsWithItsContext},
	} {
		t.Run(promise.name, func(t *testing.T) {
			t.Parallel()
			promise.test(t, open(t))
		})
	}
}

func becomesReady(t *testing.T, s Subject) {
	require.NotEmpty(t, s.Source.Name(), "people are shown the name")
	_, err := s.Source.Ready()
	require.Error(t, err, "it has given nothing, so proxies have to wait")
	s.Put("one")
	follow(t, s.Source).until("one")
	_, err = s.Source.Ready()
	require.NoError(t, err)
}

func givesDifferences(t *testing.T, s Subject) {
	s.Put("one", "two")
	f := follow(t, s.Source)
	f.until("one", "two")
	s.Put("two", "three")
	f.until("three", "two")
	require.LessOrEqual(t, f.changes, 3, "a batch has what differs: one is gone, three has come, and two at most came again")
	s.Put("two", "three")
	s.Put("two")
	f.until("two")
	s.Put()
	f.until()
}

func givesOneAtATime(t *testing.T, s Subject) {
	s.Put("first")
	f := follow(t, s.Source)
	f.until("first")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Put("first", name)
	}
	f.until("e", "first")
	require.False(t, f.overlapped.Load(), "apply was called while another call had not returned")
}

var errUser = errors.New("the user of the source has failed")

func endsWithItsUser(t *testing.T, s Subject) {
	s.Put("one")
	ended := make(chan error, 1)
	go func() { ended <- s.Source.Run(t.Context(), func(kinds.Batch) error { return errUser }) }()
	require.ErrorIs(t, <-ended, errUser)
}

func endsWithItsContext(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Source.Run(ctx, func(kinds.Batch) error { return nil }) }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// follower keeps the names of what a source gave.
type follower struct {
	t          *testing.T
	batches    chan kinds.Batch
	applying   atomic.Bool
	overlapped atomic.Bool
	names      map[string]bool
	changes    int // of the last batch
}

func follow(t *testing.T, s source.Source) *follower {
	t.Helper()
	f := &follower{t: t, batches: make(chan kinds.Batch, 100), names: map[string]bool{}}
	Run(t, s, f.apply)
	return f
}

// Run runs a source until the test ends, and requires it to end then.
func Run(t *testing.T, s source.Source, apply func(kinds.Batch) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, apply) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func (f *follower) apply(b kinds.Batch) error {
	if f.applying.Swap(true) {
		f.overlapped.Store(true)
	}
	defer f.applying.Store(false)
	f.batches <- b
	b.TellInForce()
	return nil
}

// within bounds how long a source may take to find what has changed.
const within = 20 * time.Second

// until takes batches until there is what is named, in order, and nothing else.
func (f *follower) until(want ...string) {
	f.t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case b := <-f.batches:
			f.take(b)
		case <-late.C:
			f.t.Fatalf("after %s the source has given %v in place of %v", within, f.has(), want)
		}
		if slices.Equal(f.has(), want) {
			return
		}
	}
}

func (f *follower) take(b kinds.Batch) {
	f.t.Helper()
	f.changes = len(b.Changes)
	for _, c := range b.Changes {
		if c.Resource == nil {
			require.True(f.t, f.names[c.Key.Name], "%s is removed, and was never there", c.Key.Name)
			delete(f.names, c.Key.Name)
			continue
		}
		require.Equal(f.t, c.Key, c.Resource.Key(), "a change is under the key of its resource")
		f.names[c.Key.Name] = true
	}
}

func (f *follower) has() []string {
	names := []string{}
	for name := range f.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

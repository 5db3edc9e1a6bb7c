package registrytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// follower runs a registry, and keeps what it tells. What breaks the contract fails the test at once.
type follower struct {
	t       *testing.T
	subject Subject
	over    func() error // ends the current run
	busy    atomic.Bool  // a method of the sink is being called

	mu    sync.Mutex
	name  string
	told  bool // Replace was called in this run
	held  map[kinds.Key]*kinds.Resource
	away  error
	kept  []string // services that must be there at any time
	cold  bool     // nothing may go
	moved chan struct{}
}

func follow(t *testing.T, s Subject) *follower {
	t.Helper()
	f := &follower{t: t, subject: s, held: map[kinds.Key]*kinds.Resource{}, moved: make(chan struct{}, 1)}
	t.Cleanup(f.stop)
	f.again()
	return f
}

// again runs a registry that was just opened.
func (f *follower) again() {
	r := f.subject.Open()
	f.mu.Lock()
	f.name, f.told, f.away = r.Name(), false, nil
	f.mu.Unlock()
	require.NotEmpty(f.t, r.Name(), "names of resources begin with it")
	f.over = Run(r, sink{f})
}

// stop ends the run, unless it has ended.
func (f *follower) stop() {
	if f.over == nil {
		return
	}
	err := f.over()
	f.over = nil
	require.ErrorIs(f.t, err, context.Canceled, "a run ends with its context")
}

// interrupt ends the run and begins another. One that begins while it is cut off has nothing yet.
func (f *follower) interrupt(_ *rand.Rand, cut bool) {
	if !cut {
		f.stop()
		f.again()
	}
}

func (f *follower) freeze(frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cold = frozen
}

func (f *follower) end() {
	f.t.Helper()
	f.untilBack()
	f.stop()
}

// sink hands on to a follower.
type sink struct{ *follower }

// enter begins a call. Calls must not overlap.
func (f *follower) enter() (leave func()) {
	if f.busy.Swap(true) {
		f.t.Error("two methods of the sink are called at once")
	}
	f.mu.Lock()
	return func() {
		f.mu.Unlock()
		f.busy.Store(false)
		select {
		case f.moved <- struct{}{}:
		default:
		}
	}
}

// Replace takes everything.
func (s sink) Replace(all []*kinds.Resource) {
	defer s.enter()()
	if s.cold && len(all) < len(s.held) {
		s.t.Errorf("%d resources are left of %d while the registry cannot be asked", len(all), len(s.held))
	}
	s.told = true
	s.held = map[kinds.Key]*kinds.Resource{}
	for _, r := range all {
		if s.held[r.Key()] != nil {
			s.t.Errorf("%s is given twice", r.Key())
		}
		s.hold(r)
	}
	s.requireKept()
}

// Apply takes changes.
func (s sink) Apply(changes []kinds.Change) {
	defer s.enter()()
	if !s.told {
		s.t.Error("changes come before everything was given")
	}
	for _, c := range changes {
		switch {
		case c.Resource != nil && c.Resource.Key() == c.Key:
			s.hold(c.Resource)
		case c.Resource != nil:
			s.t.Errorf("%s is told under the name of %s", c.Resource.Key(), c.Key)
		case s.held[c.Key] == nil:
			s.t.Errorf("%s is removed, and was never there", c.Key)
		case s.cold:
			s.t.Errorf("%s is removed while the registry cannot be asked", c.Key)
		default:
			delete(s.held, c.Key)
		}
	}
	s.requireKept()
}

// hold keeps a resource that fits the rules of its kind.
func (f *follower) hold(r *kinds.Resource) {
	if err := check(r); err != nil {
		f.t.Errorf("%s: %v", r.Key(), err)
	}
	if !strings.HasPrefix(r.Name, f.name+".") {
		f.t.Errorf("%s does not begin with the name of its registry, %s", r.Key(), f.name)
	}
	f.held[r.Key()] = r
}

func check(r *kinds.Resource) error {
	spec, err := r.SpecJSON()
	if err != nil {
		return err
	}
	wrong := r.Kind.Check(spec, kinds.Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations})
	if len(wrong) > 0 {
		return kinds.Errors(wrong)
	}
	return nil
}

// requireKept fails the test if a service is gone that never left its registry.
func (f *follower) requireKept() {
	now := servedBy(f.held)
	for _, service := range f.kept {
		if len(now[f.subject.Host(service)]) == 0 {
			f.t.Errorf("the service %s was taken away, and is in the registry", service)
		}
	}
}

// Holds reports whether there is anything.
func (s sink) Holds() bool {
	defer s.enter()()
	return len(s.held) > 0
}

// Bad fails the test: it registers nothing that is bad.
func (s sink) Bad(name string, err error) {
	defer s.enter()()
	if err != nil {
		s.t.Errorf("%s is told to be bad: %v", name, err)
	}
}

// Secrets fails the test: it has none.
func (s sink) Secrets(namespace string, _ []registry.Secret) {
	defer s.enter()()
	s.t.Errorf("there are secrets in the namespace %s", namespace)
}

// Away keeps the reason.
func (s sink) Away(err error) {
	defer s.enter()()
	s.away = err
}

// keep requires services to be there at any time from now on.
func (f *follower) keep(services ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = services
}

// wait waits until a condition holds, which it asks after each call of the sink.
func (f *follower) wait(what string, holds func() error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), poll.Longest)
	defer cancel()
	for {
		f.mu.Lock()
		err := holds()
		f.mu.Unlock()
		if err == nil {
			return
		}
		select {
		case <-f.moved:
		case <-ctx.Done():
			f.t.Fatalf("not within %s: %s: %v", poll.Longest, what, err)
		}
	}
}

// until waits until there is exactly this.
func (f *follower) until(want content) {
	f.t.Helper()
	expected := want.asServed(f.subject)
	f.wait("the mesh has what the registry has", func() error {
		if now := servedBy(f.held); !f.told || !reflect.DeepEqual(now, expected) {
			return fmt.Errorf("the registry has %v, and told %v (was it asked: %t, away: %w)", expected, now, f.told, f.away)
		}
		return nil
	})
}

func (f *follower) untilAway() {
	f.t.Helper()
	f.wait("it says that it is away", func() error {
		if f.away == nil {
			return errors.New("it says nothing")
		}
		return nil
	})
}

func (f *follower) untilBack() {
	f.t.Helper()
	f.wait("it says that it is back", func() error { return f.away })
}

func (f *follower) requireContent(want content) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(f.t, want.asServed(f.subject), servedBy(f.held))
}

func (f *follower) requireUntold() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.False(f.t, f.told, "it could not be asked, so there is nothing to tell")
}

var (
	_ registry.Sink = sink{}
	_ mesh          = (*follower)(nil)
)

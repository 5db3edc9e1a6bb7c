package registrytest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// Watcher keeps what a registry tells, for tests to wait for. Its fields are read with the lock, which
// Until has.
type Watcher struct {
	sync.Mutex

	Told   int                                   // how often everything was
	All    map[string]*kinds.Resource            // by what names gives
	Wrong  map[string]string                     // why entries are bad
	Lent   map[string]map[string]registry.Secret // by namespace and name
	Reason error                                 // why the registry is away; nil while it is not

	names func(kinds.Key) string
}

// Watch runs a registry until the test ends. Names says how tests call a resource.
func Watch(t *testing.T, r registry.Registry, names func(kinds.Key) string) *Watcher {
	t.Helper()
	return watch(t, r, &Watcher{All: map[string]*kinds.Resource{}, names: names})
}

// Another runs a registry as a server does that is started anew: with what the watcher has.
func (w *Watcher) Another(t *testing.T, r registry.Registry) *Watcher {
	t.Helper()
	w.Lock()
	defer w.Unlock()
	return watch(t, r, &Watcher{All: maps.Clone(w.All), names: w.names})
}

func watch(t *testing.T, r registry.Registry, w *Watcher) *Watcher {
	t.Helper()
	w.Wrong, w.Lent = map[string]string{}, map[string]map[string]registry.Secret{}
	stop := Run(r, w)
	t.Cleanup(func() { require.ErrorIs(t, stop(), context.Canceled) })
	return w
}

// Replace implements registry.Sink. It keeps what is told to be bad, as whoever runs a registry does.
func (w *Watcher) Replace(all []*kinds.Resource) {
	w.Lock()
	defer w.Unlock()
	w.Told++
	before := maps.Clone(w.All)
	clear(w.All)
	for _, r := range all {
		w.All[w.names(r.Key())] = r
	}
	for name, r := range before {
		entry := r.Annotations[kinds.OriginEntryAnnotation]
		beginning, _, _ := strings.Cut(entry, "/")
		if w.Wrong[entry]+w.Wrong[beginning] != "" && w.All[name] == nil {
			w.All[name] = r
		}
	}
}

// Apply implements registry.Sink.
func (w *Watcher) Apply(changes []kinds.Change) {
	w.Lock()
	defer w.Unlock()
	for _, c := range changes {
		if w.All[w.names(c.Key)] = c.Resource; c.Resource == nil {
			delete(w.All, w.names(c.Key))
		}
	}
}

// Holds implements registry.Sink.
func (w *Watcher) Holds() bool {
	w.Lock()
	defer w.Unlock()
	return len(w.All) > 0
}

// Bad implements registry.Sink.
func (w *Watcher) Bad(name string, err error) {
	w.Lock()
	defer w.Unlock()
	if delete(w.Wrong, name); err != nil {
		w.Wrong[name] = err.Error()
	}
}

// Secrets implements registry.Sink.
func (w *Watcher) Secrets(namespace string, all []registry.Secret) {
	w.Lock()
	defer w.Unlock()
	w.Lent[namespace] = map[string]registry.Secret{}
	for _, s := range all {
		w.Lent[namespace][s.Name] = s
	}
}

// Away implements registry.Sink.
func (w *Watcher) Away(err error) {
	w.Lock()
	defer w.Unlock()
	w.Reason = err
}

// Until waits for something.
func (w *Watcher) Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		w.Lock()
		defer w.Unlock()
		if holds() {
			return nil
		}
		return fmt.Errorf("%s: away: %v, there: %v, bad: %v", what, w.Reason, slices.Sorted(maps.Keys(w.All)), w.Wrong) //nolint:errorlint // it is shown
	})
}

// UntilThere waits until exactly these are there, and the registry is not away.
func (w *Watcher) UntilThere(t *testing.T, names ...string) {
	t.Helper()
	names = slices.Sorted(slices.Values(names))
	w.Until(t, "there are "+strings.Join(names, ", "), func() bool {
		return w.Told > 0 && w.Reason == nil && slices.Equal(slices.Sorted(maps.Keys(w.All)), names)
	})
}

// UntilAway waits for a reason with certain words. What was there has to be there still.
func (w *Watcher) UntilAway(t *testing.T, words string, there ...string) {
	t.Helper()
	w.Until(t, "away: "+words, func() bool { return w.Reason != nil && strings.Contains(w.Reason.Error(), words) })
	w.RequireThere(t, there...)
}

// UntilBad waits until an entry is bad, for a reason with certain words.
func (w *Watcher) UntilBad(t *testing.T, entry, words string) {
	t.Helper()
	w.Until(t, entry+" is bad: "+words, func() bool { return strings.Contains(w.Wrong[entry], words) })
}

// RequireThere requires that exactly these are there now.
func (w *Watcher) RequireThere(t *testing.T, names ...string) {
	t.Helper()
	w.Lock()
	defer w.Unlock()
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(w.All)))
}

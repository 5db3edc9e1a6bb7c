package kubernetes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// watcher keeps what a registry tells, by kind and name: "ServiceEntry shop/kubernetes.web".
type watcher struct {
	mu   sync.Mutex
	told int // how often everything was
	all  map[string]*kinds.Resource
	bad  map[string]string
	away error
}

func watch(t *testing.T, kubeconfig, parameters string) *watcher {
	t.Helper()
	w := &watcher{all: map[string]*kinds.Resource{}, bad: map[string]string{}}
	stop := registrytest.Run(open(t, kubeconfig, "timeout=500ms&"+parameters), w)
	t.Cleanup(func() { require.ErrorIs(t, stop(), context.Canceled) })
	return w
}

// Replace keeps what is told to be bad, as whoever runs a registry does.
func (w *watcher) Replace(all []*kinds.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told++
	before := maps.Clone(w.all)
	clear(w.all)
	for _, r := range all {
		w.all[r.Key().String()] = r
	}
	for key, r := range before {
		entry := r.Annotations[kinds.OriginEntryAnnotation]
		beginning, _, _ := strings.Cut(entry, "/")
		if w.bad[entry]+w.bad[beginning] != "" && w.all[key] == nil {
			w.all[key] = r
		}
	}
}

func (w *watcher) Apply(changes []kinds.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		if w.all[c.Key.String()] = c.Resource; c.Resource == nil {
			delete(w.all, c.Key.String())
		}
	}
}

func (w *watcher) Bad(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.bad, name); err != nil {
		w.bad[name] = err.Error()
	}
}

func (w *watcher) Away(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = err
}

// until waits for something.
func (w *watcher) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if holds() {
			return nil
		}
		return fmt.Errorf("%s: away: %v, there: %v, bad: %v", what, w.away, slices.Sorted(maps.Keys(w.all)), w.bad) //nolint:errorlint // it is shown
	})
}

// untilThere waits until exactly these are there, and it is not away.
func (w *watcher) untilThere(t *testing.T, names ...string) {
	t.Helper()
	w.until(t, "there are "+strings.Join(names, ", "), func() bool {
		for _, name := range names {
			if w.all[name] == nil {
				return false
			}
		}
		return w.away == nil && w.told > 0 && len(w.all) == len(names)
	})
}

// untilAway waits for a reason with certain words. What was there has to be there still.
func (w *watcher) untilAway(t *testing.T, words string, there ...string) {
	t.Helper()
	w.until(t, "away: "+words, func() bool { return w.away != nil && strings.Contains(w.away.Error(), words) })
	w.mu.Lock()
	defer w.mu.Unlock()
	require.ElementsMatch(t, there, slices.Collect(maps.Keys(w.all)))
}

// entry is what a ServiceEntry says.
func (w *watcher) entry(name string) *networking.ServiceEntry {
	r := w.all["ServiceEntry "+name]
	if r == nil {
		return &networking.ServiceEntry{}
	}
	return r.Spec.Message().(*networking.ServiceEntry)
}

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/kubernetes"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// status is what an object says of itself.
type status struct {
	Metadata struct {
		Generation      int64
		ResourceVersion string
	}
	Status struct {
		Conditions []struct {
			Type, Status, Reason, Message, LastTransitionTime string
			ObservedGeneration                                int64
		}
	}
}

func (s *status) String() string {
	var all []string
	for _, c := range s.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s:%s@%d", c.Type, c.Status, c.Reason, c.ObservedGeneration))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// logged is a log that tests read.
type logged struct {
	sync.Mutex
	strings.Builder
}

func (l *logged) Write(text []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Builder.Write(text)
}

// said counts how often the log has a text.
func (l *logged) said(text string) int {
	l.Lock()
	defer l.Unlock()
	return strings.Count(l.String(), text)
}

// writing is a cluster to which statuses are written.
type writing struct {
	*watcher

	t        *testing.T
	cluster  *kubetest.Cluster
	registry *kubernetes.Registry
	log      *logged
	to       chan []registry.Status
}

func pathOf(name string) string { return networkingPath + "virtualservices/" + name }

// write has statuses written until the test ends.
func write(t *testing.T, c *kubetest.Cluster, kubeconfig string) *writing {
	t.Helper()
	return writeWith(t, c, kubeconfig, "services=false")
}

func writeWith(t *testing.T, c *kubetest.Cluster, kubeconfig, parameters string) *writing {
	t.Helper()
	at, err := url.Parse("kubernetes://" + kubeconfig + "?status=true&" + parameters)
	require.NoError(t, err)
	log := &logged{}
	r, err := kubernetes.Open(at, reload.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	require.True(t, r.WritesStatuses())
	w := &writing{
		watcher: &watcher{registrytest.Watch(t, r, func(k kinds.Key) string { return k.String() })},
		t:       t, cluster: c, registry: r, log: log, to: make(chan []registry.Status),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.WriteStatuses(ctx, w.to) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return w
}

func programmed(is string) []registry.Condition {
	return []registry.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted"}, {Type: "Programmed", Status: is, Reason: "Programmed", Message: "as of " + is}}
}

// tells tells what became of these resources, as they are now.
func (w *writing) tells(conditions []registry.Condition, names ...string) {
	w.t.Helper()
	var all []registry.Status
	w.Lock()
	for _, name := range names {
		r := w.All["VirtualService shop/"+name]
		require.NotNil(w.t, r, name)
		all = append(all, registry.Status{Resource: r, Conditions: conditions})
	}
	w.Unlock()
	w.to <- all
}

func (w *writing) status(name string) *status {
	w.t.Helper()
	s := &status{}
	require.NoError(w.t, json.Unmarshal(w.cluster.Get(pathOf(name)), s))
	return s
}

// shows waits until an object has these conditions.
func (w *writing) shows(name, conditions string) *status {
	w.t.Helper()
	var s *status
	poll.Eventually(w.t, func(context.Context) error {
		if s = w.status(name); s.String() != conditions {
			return fmt.Errorf("it says %q, and not %q; the log: %s", s, conditions, &w.log.Builder)
		}
		return nil
	})
	return s
}

// wrote waits until so many statuses were written, and requires that there are no more. The cluster shows
// a status before the answer to its writer has arrived.
func (w *writing) wrote(many uint64) {
	w.t.Helper()
	poll.Eventually(w.t, func(context.Context) error {
		if n := w.registry.Writes(); n.Done < many || n.Waiting > 0 {
			return fmt.Errorf("%d are written, and %d wait", n.Done, n.Waiting)
		}
		return nil
	})
	require.Equal(w.t, many, w.registry.Writes().Done)
}

func begin(t *testing.T) *kubetest.Cluster {
	t.Helper()
	c := kubetest.Start(t)
	c.Namespace(shop)
	c.InstallIstio()
	return c
}

func TestWhatBecameOfAResourceIsInItsStatus(t *testing.T) {
	t.Parallel()
	c := begin(t)
	w := write(t, c, c.Kubeconfig(c.Address, c.Admin()))
	c.Apply(pathOf("web"), virtualService("web", "mesh"))
	c.ApplyStatus(pathOf("web"), kubetest.Object{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "status": kubetest.Object{
		"conditions": []kubetest.Object{{"type": "Reconciled", "status": "True", "reason": "Theirs"}},
	}})
	w.UntilThere(t, "VirtualService shop/web")
	w.tells(programmed("False"), "web")
	first := w.shows("web", "Accepted=True:Accepted@1 Programmed=False:Programmed@1 Reconciled=True:Theirs@0")
	w.tells(programmed("True"), "web")
	second := w.shows("web", "Accepted=True:Accepted@1 Programmed=True:Programmed@1 Reconciled=True:Theirs@0")
	require.Equal(t, first.Status.Conditions[1].LastTransitionTime, second.Status.Conditions[1].LastTransitionTime, "it was accepted all the time")
	w.wrote(2) // what comes back of our own writes is no reason to write
	require.Zero(t, w.registry.Writes().Waiting)
	w.Lock()
	require.Equal(t, 1, w.Told, "a status is no change")
	w.Unlock()

	// Another version: nothing is said of it before it is known.
	other := virtualService("web", "edge/gate")
	c.Apply(pathOf("web"), other)
	w.Until(t, "it has changed", func() bool {
		return strings.Contains(fmt.Sprint(w.All["VirtualService shop/web"].Spec.Message()), "edge/gate")
	})
	w.wrote(2)
	w.tells(programmed("True"), "web")
	w.shows("web", "Accepted=True:Accepted@2 Programmed=True:Programmed@2 Reconciled=True:Theirs@0")

	c.Delete(pathOf("web"))
	w.UntilThere(t)
	w.wrote(3)
	require.Zero(t, w.registry.Writes().Failed, "what goes is no failure")
}

func TestWhoMayNotWriteStatusesIsToldOnceWhatToGrant(t *testing.T) {
	t.Parallel()
	c := begin(t)
	user := c.User("reader")
	for _, group := range kubernetes.Groups() {
		c.Grant("read-"+strings.ReplaceAll(group, ".", "-"), "reader", kubetest.Reads(group, "*"))
	}
	for i := range 3 {
		c.Apply(pathOf(fmt.Sprint("web-", i)), virtualService(fmt.Sprint("web-", i), "mesh"))
	}
	w := write(t, c, c.Kubeconfig(c.Address, user))
	w.UntilThere(t, "VirtualService shop/web-0", "VirtualService shop/web-1", "VirtualService shop/web-2")
	w.tells(programmed("True"), "web-0", "web-1", "web-2")
	poll.Eventually(t, func(context.Context) error {
		if w.log.said("grant patch of virtualservices/status in the API group networking.istio.io") == 0 {
			return fmt.Errorf("the log says %s", &w.log.Builder)
		}
		return nil
	})
	require.NotZero(t, w.registry.Writes().Waiting)
	c.Grant("write", "reader", kubetest.Object{"apiGroups": []string{"networking.istio.io"}, "resources": []string{"*/status"}, "verbs": []string{"patch"}})
	for i := range 3 {
		w.shows(fmt.Sprint("web-", i), "Accepted=True:Accepted@1 Programmed=True:Programmed@1")
	}
	require.Equal(t, 1, w.log.said("grant patch of"))
	require.Zero(t, w.registry.Writes().Waiting)
}

// Somebody who writes our conditions again and again is corrected, and not at any rate.
func TestTwoThatWriteTheSameConditionsDoNotWriteForever(t *testing.T) {
	t.Parallel()
	c := begin(t)
	w := write(t, c, c.Kubeconfig(c.Address, c.Admin()))
	c.Apply(pathOf("web"), virtualService("web", "mesh"))
	w.UntilThere(t, "VirtualService shop/web")
	w.tells(programmed("True"), "web")
	const ours = "Accepted=True:Accepted@1 Programmed=True:Programmed@1"
	begun := time.Now()
	for range 3 {
		w.shows("web", ours)
		c.ApplyStatus(pathOf("web"), kubetest.Object{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "status": kubetest.Object{
			"conditions": []kubetest.Object{{"type": "Accepted", "status": "False", "reason": "Theirs"}},
		}})
	}
	w.shows("web", ours)
	w.wrote(4)
	require.Greater(t, time.Since(begun), 3*time.Second, "each correction waits longer than the one before")
}

// Each object has its status soon, however many there are, and each is written once.
func TestManyStatuses(t *testing.T) {
	c := begin(t)
	const many = 1000
	var all []kubetest.Creation
	names, there := make([]string, many), make([]string, many)
	for i := range many {
		names[i] = fmt.Sprintf("web-%d", i)
		there[i] = "VirtualService shop/" + names[i]
		o := virtualService(names[i], "mesh")
		o["metadata"].(kubetest.Object)["namespace"] = shop
		all = append(all, kubetest.Creation{Path: networkingPath + "virtualservices", Object: o})
	}
	c.Create(all)
	w := write(t, c, c.Kubeconfig(c.Address, c.Admin()))
	w.UntilThere(t, there...)
	begun := time.Now()
	w.tells(programmed("False"), names...)
	poll.Within(t, time.Minute, func(context.Context) error {
		if n := w.registry.Writes(); n.Done < many || n.Waiting > 0 {
			return fmt.Errorf("%d are written, and %d wait", n.Done, n.Waiting)
		}
		return nil
	})
	t.Logf("%d statuses are written after %s", many, time.Since(begun))
	require.EqualValues(t, many, w.registry.Writes().Done)
	begun = time.Now()
	for i := range 20 { // each of which says something else: what is outdated meanwhile is never written
		w.tells(programmed(fmt.Sprint(i)), names...)
	}
	w.tells(programmed("True"), names...)
	poll.Within(t, time.Minute, func(context.Context) error {
		if n := w.registry.Writes(); n.Waiting > 0 {
			return fmt.Errorf("%d wait", n.Waiting)
		}
		return nil
	})
	w.shows("web-0", "Accepted=True:Accepted@1 Programmed=True:Programmed@1")
	took, done := time.Since(begun), w.registry.Writes().Done-many
	t.Logf("%d more were written in %s", done, took)
	require.LessOrEqual(t, float64(done), 1000+500*took.Seconds()+100)
}

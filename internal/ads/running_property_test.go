package ads_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Whatever a client refuses, and however late, it has at least what it is said to run. Each change
// of a service replaces its resources by others of another name, as a change of its port does.
func TestNoClientIsSaidToRunWhatItHasLost(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{limit, time.Millisecond, 50 * time.Microsecond, time.Nanosecond} {
		t.Run(patience.String(), func(t *testing.T) {
			t.Parallel()
			eachForm(t, func(t *testing.T, connect func(*server) *client) {
				for seed := range uint64(25) {
					s := serve(t, tellingWhatRuns(patience))
					(&moody{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 7))}).run(connect)
				}
			})
		})
	}
}

// moody is a client that refuses new clusters of one service at some times, and not at others.
type moody struct {
	t       *testing.T
	s       *server
	rng     *rand.Rand
	client  *client
	whole   bool // it speaks state of the world
	refuses bool

	changes   [3]int                     // of each service
	revisions [][3]int                   // the changes at each revision
	has       map[string]map[string]bool // names by type
	asked     string                     // the nonce of the last response about endpoints
	told      []string                   // what has happened
}

func (m *moody) run(connect func(*server) *client) {
	m.has = map[string]map[string]bool{clusters: {}, endpoints: {}, listeners: {}}
	m.publish()
	m.client = connect(m.s)
	_, incremental := m.client.form.(deltaForm)
	m.whole = !incremental
	m.client.ask(clusters)
	m.client.ask(listeners)
	var inbox []*answer
	for range 60 {
		switch m.rng.IntN(4) {
		case 0:
			m.publish()
		case 1:
			m.refuses = m.rng.IntN(2) == 0
		}
		inbox = append(inbox, m.client.everything()...)
		m.check()
		for n := m.rng.IntN(len(inbox) + 1); n > 0; n-- {
			m.answer(inbox[0])
			m.check()
			inbox = inbox[1:]
		}
	}
	m.client.cancel()
}

func nameAfter(service, changes int) string { return fmt.Sprintf("s%d-%d", service, changes) }

func (m *moody) publish() {
	var named []string
	var all []*served.Resource
	for i := range m.changes {
		m.changes[i] += m.rng.IntN(2)
		name := nameAfter(i, m.changes[i])
		named = append(named, name+"=1")
		all = append(all, res(name, "1", served.Ref{TypeURL: endpoints, Name: name}))
	}
	revision := fmt.Sprintf("r%d", len(m.revisions))
	m.revisions = append(m.revisions, m.changes)
	m.told = append(m.told, fmt.Sprintf("%s is %v", revision, named))
	m.s.publish(revision, sets{clusters: served.NewSet(all...), endpoints: set(named...), listeners: set(named...)})
}

func (m *moody) answer(a *answer) {
	reply := ask{typeURL: a.typeURL, nonce: a.nonce}
	if m.refuses && m.hurts(a) {
		reply.refusal = "not this one"
	} else {
		m.accept(a)
	}
	if a.typeURL == endpoints {
		m.asked, reply.names = a.nonce, slices.Sorted(maps.Keys(m.has[clusters]))
	}
	m.told = append(m.told, fmt.Sprintf("%s of %s with %v, without %v: %q", a.typeURL, a.revision, a.resources, a.removed, reply.refusal))
	m.client.send(reply)
}

// hurts reports whether an answer has a cluster of the first service that the client does not have.
func (m *moody) hurts(a *answer) bool {
	return a.typeURL == clusters && slices.ContainsFunc(a.resources, func(r string) bool {
		return strings.HasPrefix(r, "s0-") && !m.has[clusters][strings.TrimSuffix(r, "=1")]
	})
}

func (m *moody) accept(a *answer) {
	before, has := maps.Clone(m.has[a.typeURL]), m.has[a.typeURL]
	if m.whole && a.typeURL != endpoints {
		clear(has)
	}
	for _, r := range a.resources {
		has[strings.TrimSuffix(r, "=1")] = true
	}
	for _, name := range a.removed {
		delete(has, name)
	}
	if a.typeURL == clusters {
		m.askForEndpoints(before, has)
	}
}

func (m *moody) askForEndpoints(before, now map[string]bool) {
	if maps.Equal(before, now) {
		return
	}
	a := ask{typeURL: endpoints, names: slices.Sorted(maps.Keys(now))}
	if m.whole {
		a.nonce = m.asked
	}
	for name := range now {
		if !before[name] {
			a.subscribe = append(a.subscribe, name)
		}
	}
	for name := range before {
		if !now[name] {
			a.unsubscribe = append(a.unsubscribe, name)
			delete(m.has[endpoints], name)
		}
	}
	m.client.send(a)
}

// check compares what the client is said to run with what it has: the same of each service, or
// something newer.
func (m *moody) check() {
	runs := -1
	for _, s := range m.s.ads.Streams() {
		if at := s.Running().Snapshot; at != nil {
			_, err := fmt.Sscanf(at.Revision, "r%d", &runs)
			require.NoError(m.t, err)
		}
	}
	if runs < 0 {
		return
	}
	for service, changes := range m.revisions[runs] {
		for typeURL, has := range m.has {
			newer := slices.ContainsFunc(slices.Collect(maps.Keys(has)), func(name string) bool {
				var of, after int
				_, err := fmt.Sscanf(name, "s%d-%d", &of, &after)
				return err == nil && of == service && after >= changes
			})
			require.True(m.t, newer, "it is said to run r%d, and has %s %v:\n%s", runs, typeURL, has, strings.Join(m.told, "\n"))
		}
	}
}

package ads_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// In each run, routes move between clusters that come, change and go. A client that treats them as
// Envoy does applies one response after the other, and reconnects at random to one of two servers
// with what it has. No route of its listeners ever leads to a cluster that cannot be used. At the
// end it has the last snapshot.
func TestTheRoutesOfAReturningClientAlwaysLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, refuses := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuses routes %v", refuses), func(t *testing.T) {
			t.Parallel()
			servers := [2]*server{serve(t, makeBeforeBreak(limit)), serve(t, makeBeforeBreak(limit))}
			for seed := range uint64(300) {
				(&routeWalk{t: t, servers: servers, seed: seed, rng: rand.New(rand.NewPCG(seed, 4)), refuses: refuses}).run()
			}
		})
	}
}

// routeWalk is one run: a model of what is published, and of an Envoy. A route has the name of its
// listener, and the name of the cluster that it leads to for a version.
type routeWalk struct {
	t       *testing.T
	servers [2]*server
	seed    uint64
	rng     *rand.Rand
	refuses bool

	revision int
	sets     sets

	client  *client
	inbox   []*answer // received and not applied yet
	unacked *answer   // of clusters, which Envoy acknowledges when none is warming
	asked   map[string]bool

	has     map[string]map[string]string
	names   map[string]map[string]bool // of endpoints and of routes, that it asks for
	warming map[string]bool            // clusters whose endpoints have to come, if only again
	active  map[string]bool            // that can be used
	leads   map[string]string          // the cluster of each listener's route
	log     []string
}

func (w *routeWalk) run() {
	w.sets = sets{clusters: served.NewSet(), endpoints: served.NewSet(), listeners: served.NewSet(), routes: served.NewSet()}
	w.has, w.names = map[string]map[string]string{}, map[string]map[string]bool{endpoints: {}, routes: {}}
	for typeURL := range w.sets {
		w.has[typeURL] = map[string]string{}
	}
	w.warming, w.active, w.leads = map[string]bool{}, map[string]bool{}, map[string]string{}
	w.publish()
	w.connect()
	for range 60 {
		switch w.rng.IntN(10) {
		case 0, 1, 2:
			w.publish()
		case 3:
			if w.rng.IntN(2) == 0 {
				w.connect()
			}
		default:
			w.receive()
			w.apply(w.rng.IntN(len(w.inbox) + 1))
		}
	}
	w.refuses = false
	w.connect() // what it has refused counts as had on the stream where it did
	for w.receive(); len(w.inbox) > 0; w.receive() {
		w.apply(len(w.inbox))
	}
	for typeURL, set := range w.sets {
		want := map[string]string{}
		for r := range set.All() {
			want[r.Name] = r.Version
		}
		require.Equal(w.t, want, w.has[typeURL], "seed %d: %s after %v", w.seed, typeURL, w.log)
	}
	w.client.cancel()
}

// publish changes clusters, listeners and where routes lead. Both servers get it at once.
func (w *routeWalk) publish() {
	w.revision++
	w.sets = maps.Clone(w.sets)
	var some []string // clusters, of which one is there at least
	for _, i := range w.rng.Perm(5)[:1+w.rng.IntN(4)] {
		some = append(some, fmt.Sprintf("c%d", i))
	}
	var upserts, theirs, lines, leads []*served.Resource
	for _, name := range some {
		version := "1"
		if before := w.sets[clusters].Get(name); before != nil {
			version = before.Version
		}
		if w.rng.IntN(4) == 0 {
			version = fmt.Sprint(w.rng.IntN(3))
		}
		upserts = append(upserts, res(name, version, served.Ref{TypeURL: endpoints, Name: name}))
		theirs = append(theirs, res(name, fmt.Sprint(w.rng.IntN(2))))
	}
	for _, i := range w.rng.Perm(3)[:1+w.rng.IntN(3)] {
		name := fmt.Sprintf("l%d", i)
		lines = append(lines, res(name, fmt.Sprint(w.rng.IntN(2))))
		leads = append(leads, res(name, some[w.rng.IntN(len(some))]))
	}
	for typeURL, list := range map[string][]*served.Resource{clusters: upserts, endpoints: theirs, listeners: lines, routes: leads} {
		next := served.NewSet(list...)
		gone := slices.DeleteFunc(w.sets[typeURL].Changed(nil), func(name string) bool { return next.Get(name) != nil })
		w.sets[typeURL] = w.sets[typeURL].With(list, gone)
	}
	for _, s := range w.servers {
		s.publish(fmt.Sprintf("r%d", w.revision), w.sets)
	}
}

// connect opens a stream to one of the servers, and asks as Envoy does: for all types at once,
// except for clusters while one is warming.
func (w *routeWalk) connect() {
	if w.client != nil {
		w.client.cancel()
	}
	w.client, w.inbox, w.unacked, w.asked = w.servers[w.rng.IntN(2)].delta(), nil, nil, map[string]bool{}
	w.log = append(w.log, "connect")
	if len(w.warming) == 0 {
		w.ask(clusters)
	}
	for _, typeURL := range []string{endpoints, routes} {
		if len(w.names[typeURL]) > 0 {
			w.ask(typeURL, slices.Sorted(maps.Keys(w.names[typeURL]))...)
		}
	}
	if len(w.has[listeners]) > 0 {
		w.ask(listeners)
	}
}

// ask asks for names of a type, or for all of it; the first time with what it has.
func (w *routeWalk) ask(typeURL string, names ...string) {
	request := ask{typeURL: typeURL, subscribe: names}
	if !w.asked[typeURL] {
		request.held = w.has[typeURL]
	}
	w.asked[typeURL] = true
	w.client.send(request)
}

// receive takes in everything that the server has to say now.
func (w *routeWalk) receive() {
	w.inbox = append(w.inbox, w.client.everything()...)
}

// apply takes in and answers a few responses.
func (w *routeWalk) apply(n int) {
	for _, a := range w.inbox[:n] {
		w.log = append(w.log, fmt.Sprintf("%s %v -%v", a.typeURL, a.resources, a.removed))
		if a.typeURL == routes && len(a.resources) > 0 && w.refuses && w.rng.IntN(3) == 0 {
			w.client.send(ask{typeURL: routes, nonce: a.nonce, refusal: "no reason"})
			continue
		}
		for _, r := range a.resources {
			name, version, _ := strings.Cut(r, "=")
			w.take(a.typeURL, name, version)
		}
		for _, name := range a.removed {
			w.lose(a.typeURL, name)
		}
		if a.typeURL == clusters {
			w.unacked = a
		} else {
			w.client.send(ask{typeURL: a.typeURL, nonce: a.nonce})
		}
		w.warmed()
		w.requireUsable()
	}
	w.inbox = w.inbox[n:]
}

func (w *routeWalk) take(typeURL, name, version string) {
	switch typeURL {
	case clusters:
		w.warming[name] = true
		w.want(endpoints, name)
	case endpoints:
		if !w.names[endpoints][name] {
			return
		}
		delete(w.warming, name)
		w.active[name] = true
	case listeners:
		w.want(routes, name)
	case routes:
		if !w.names[routes][name] {
			return
		}
		w.leads[name] = version
	}
	w.has[typeURL][name] = version
}

func (w *routeWalk) lose(typeURL, name string) {
	delete(w.has[typeURL], name) // of a route it is the version alone that it forgets
	switch typeURL {
	case clusters:
		delete(w.active, name)
		delete(w.warming, name)
		w.unwant(endpoints, name)
	case endpoints:
		delete(w.warming, name) // there is nothing to wait for
	case listeners:
		delete(w.leads, name)
		w.unwant(routes, name)
	}
}

func (w *routeWalk) want(typeURL, name string) {
	if !w.names[typeURL][name] {
		w.names[typeURL][name] = true
		w.ask(typeURL, name)
	}
}

func (w *routeWalk) unwant(typeURL, name string) {
	if w.names[typeURL][name] {
		delete(w.names[typeURL], name)
		delete(w.has[typeURL], name)
		w.client.send(ask{typeURL: typeURL, unsubscribe: []string{name}})
	}
}

// warmed sends what there is to send about clusters, if none is warming. The client asks for
// listeners once it has clusters.
func (w *routeWalk) warmed() {
	if len(w.warming) > 0 {
		return
	}
	if w.unacked != nil {
		w.client.send(ask{typeURL: clusters, nonce: w.unacked.nonce})
		w.unacked = nil
	}
	for _, typeURL := range []string{clusters, listeners} {
		if !w.asked[typeURL] {
			w.ask(typeURL)
		}
	}
}

func (w *routeWalk) requireUsable() {
	for name, cluster := range w.leads {
		require.True(w.t, w.active[cluster], "seed %d: listener %s leads to %s, which cannot be used, after %v", w.seed, name, cluster, w.log)
	}
}

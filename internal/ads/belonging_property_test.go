package ads_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// In each run, routes and their hosts change at random. A client that treats them as Envoy does
// asks, drops, asks again, accepts, refuses and reconnects at random. At the end it has the hosts
// of each route that it asks for, and names no others.
func TestAClientHasWhatBelongsToWhatItAccepted(t *testing.T) {
	t.Parallel()
	plans := map[string]func(*ads.Config){"no plan": withHosts, "make before break": func(cfg *ads.Config) {
		makeBeforeBreak(limit)(cfg)
		withHosts(cfg)
		cfg.Plan.Stages[2].Types = []string{routes, hosts}
	}, "quarantine": func(cfg *ads.Config) {
		withHosts(cfg)
		cfg.Quarantine = true
	}}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, plan)
			for seed := range uint64(300) {
				(&hostsWalk{t: t, s: s, seed: seed, rng: rand.New(rand.NewPCG(seed, 2))}).run()
			}
		})
	}
}

// hostsWalk is one run: a model of what is published, and of an Envoy.
type hostsWalk struct {
	t    *testing.T
	s    *server
	seed uint64
	rng  *rand.Rand

	revision int
	routes   *served.Set
	hosts    *served.Set

	client *client
	inbox  []*answer // received and not applied yet: Envoy answers as it applies

	asks     map[string]string            // the routes it asks for, and the version that it has of each
	watches  map[string]map[string]string // the hosts, of each route that it has
	versions map[string]string            // of the hosts, as the client would name them, useless ones too
}

func (w *hostsWalk) run() {
	w.asks, w.watches, w.versions = map[string]string{}, map[string]map[string]string{}, map[string]string{}
	w.routes, w.hosts = served.NewSet(), served.NewSet()
	w.publish()
	w.connect()
	for range 40 {
		switch w.rng.IntN(10) {
		case 0, 1, 2:
			w.publish()
		case 3, 4:
			w.askOrDrop()
		case 5:
			if w.rng.IntN(4) == 0 {
				w.connect()
			}
		default:
			w.receive()
			w.apply(w.rng.IntN(len(w.inbox)+1), w.rng.IntN(8) == 0)
		}
	}
	w.end()
	w.client.cancel()
}

// end lets the client accept the last state, and checks what it has then.
func (w *hostsWalk) end() {
	w.answerAll()
	w.connect() // what it has refused counts as had on the stream where it did
	w.answerAll()
	var named []string
	for name := range w.asks {
		if w.routes.Get(name) == nil {
			continue // it may have what there was
		}
		require.Equal(w.t, w.hostsOf(name), w.watches[name], "seed %d: hosts of %s", w.seed, name)
		named = slices.AppendSeq(named, maps.Keys(w.watches[name]))
	}
	if len(w.asks) == 0 {
		return // a client that asks for no route is sent nothing about hosts
	}
	for name := range w.versions {
		if _, asked := w.asks[owner(name)]; !asked || w.routes.Get(owner(name)) != nil {
			require.Contains(w.t, named, name, "seed %d: names a host that it has not", w.seed)
		}
	}
}

func (w *hostsWalk) hostsOf(route string) map[string]string {
	all := map[string]string{}
	for r := range w.hosts.All() {
		if owner(r.Name) == route {
			all[r.Name] = r.Version
		}
	}
	return all
}

func owner(host string) string { return host[:strings.LastIndex(host, "/")] }

// The names are such that one begins like another.
func (w *hostsWalk) route() string { return []string{"a", "a/b", "c"}[w.rng.IntN(3)] }

// publish changes a route and a few hosts. Each route has one host at least that is never changed.
func (w *hostsWalk) publish() {
	w.revision++
	var upserts []*served.Resource
	var removed []string
	for range w.rng.IntN(4) {
		upserts = append(upserts, res(w.route()+"/"+w.letter(), w.letter()))
		removed = append(removed, w.route()+"/"+w.letter())
	}
	switch name := w.route(); w.rng.IntN(8) {
	case 0:
		w.routes = w.routes.With(nil, []string{name})
	case 1, 2:
		w.routes = w.routes.With([]*served.Resource{res(name, w.letter())}, nil)
	case 3: // a new line of sets
		w.hosts = served.NewSet(slices.Collect(w.hosts.All())...)
	}
	for _, name := range []string{"a", "a/b", "c"} {
		if w.routes.Get(name) != nil {
			upserts = append(upserts, res(name+"/always", "1"))
			continue
		}
		for host := range w.hostsOf(name) {
			removed = append(removed, host)
		}
		upserts = slices.DeleteFunc(upserts, func(r *served.Resource) bool { return owner(r.Name) == name })
	}
	w.hosts = w.hosts.With(upserts, removed)
	w.s.publish(fmt.Sprintf("r%d", w.revision), sets{routes: w.routes, hosts: w.hosts})
}

func (w *hostsWalk) letter() string { return string(rune('a' + w.rng.IntN(4))) }

// connect opens a stream. Requests of several types come in any order.
func (w *hostsWalk) connect() {
	if w.client != nil {
		w.client.cancel()
	}
	w.client, w.inbox = w.s.delta(), nil
	held := map[string]string{}
	for name, version := range w.asks {
		if version != "" {
			held[name] = version
		}
	}
	requests := []ask{{typeURL: hosts, held: w.versions}}
	if len(w.asks) > 0 {
		requests = append(requests, ask{typeURL: routes, subscribe: slices.Sorted(maps.Keys(w.asks)), held: held})
	}
	for _, i := range w.rng.Perm(len(requests)) {
		w.client.send(requests[i])
	}
}

// askOrDrop asks for a route, or drops it, or drops it and asks again at once. The server learns of
// the last only by the new request.
func (w *hostsWalk) askOrDrop() {
	name := w.route()
	_, asked := w.asks[name]
	delete(w.watches, name)
	if asked && w.rng.IntN(2) == 0 {
		delete(w.asks, name)
		w.client.send(ask{typeURL: routes, unsubscribe: []string{name}})
		return
	}
	w.asks[name] = ""
	w.client.send(ask{typeURL: routes, subscribe: []string{name}})
}

// receive takes in everything that the server has to say now.
func (w *hostsWalk) receive() {
	w.inbox = append(w.inbox, w.client.everything()...)
}

// apply applies and answers a few responses. It may refuse the first. The client may have applied
// some routes of a refused response, whose versions it does not name then. Of refused hosts it
// applies none: Envoy cannot name those, and nobody could take them away.
func (w *hostsWalk) apply(n int, refuse bool) {
	for _, a := range w.inbox[:n] {
		all := slices.Concat(a.removed, namesIn(a.resources))
		slices.Sort(all)
		require.Len(w.t, slices.Compact(all), len(a.removed)+len(a.resources), "a name twice in one response, which Envoy refuses")
		reply := ask{typeURL: a.typeURL, nonce: a.nonce}
		if refuse = refuse && len(a.resources) > 0; refuse { // nothing is wrong with a removal
			reply.refusal = "no reason"
		}
		switch {
		case a.typeURL == hosts && !refuse:
			w.applyHosts(a)
		case a.typeURL == routes && refuse:
			w.applyRoutes(&answer{resources: a.resources[:w.rng.IntN(len(a.resources)+1)]}, true)
		case a.typeURL == routes:
			w.applyRoutes(a, false)
		}
		w.client.send(reply)
		refuse = false
	}
	w.inbox = w.inbox[n:]
}

func namesIn(resources []string) (names []string) {
	for _, r := range resources {
		name, _, _ := strings.Cut(r, "=")
		names = append(names, name)
	}
	return names
}

func (w *hostsWalk) applyRoutes(a *answer, refused bool) {
	for _, r := range a.resources {
		name, version, _ := strings.Cut(r, "=")
		if _, asked := w.asks[name]; !asked {
			continue
		}
		if w.watches[name] == nil {
			w.watches[name] = map[string]string{}
		}
		if !refused {
			w.asks[name] = version
		}
	}
	for _, name := range a.removed { // and keeps the route
		if _, asked := w.asks[name]; asked {
			w.asks[name] = ""
		}
	}
}

func (w *hostsWalk) applyHosts(a *answer) {
	for _, r := range a.resources {
		name, version, _ := strings.Cut(r, "=")
		if watch := w.watches[owner(name)]; watch != nil {
			watch[name] = version
		}
		w.versions[name] = version
	}
	for _, name := range a.removed {
		delete(w.watches[owner(name)], name)
		delete(w.versions, name)
	}
}

// answerAll answers until the server has nothing more to say.
func (w *hostsWalk) answerAll() {
	for {
		w.receive()
		if len(w.inbox) == 0 {
			return
		}
		w.apply(len(w.inbox), false)
	}
}

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

// In each run, a mesh changes at random while a client asks, drops, accepts, refuses and reconnects
// at random. At the end the client has everything that it wants of the last snapshot.
func TestClientsEndUpWithTheLastSnapshot(t *testing.T) {
	t.Parallel()
	plans := map[string]func(*ads.Config){
		"no plan": nil, "batches": batches, "batches in parts": func(cfg *ads.Config) { batches(cfg); inParts(cfg) }, "make before break": makeBeforeBreak(limit),
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachForm(t, func(t *testing.T, connect func(*server) *client) {
				s := serve(t, plan)
				for seed := range uint64(40) {
					(&walk{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 1)), connect: connect}).run(seed)
				}
			})
		})
	}
}

// walk is one run: a model of what is published, and of a client.
type walk struct {
	t       *testing.T
	s       *server
	rng     *rand.Rand
	connect func(*server) *client

	refuses  bool
	revision int
	sets     sets
	client   *client
	asked    map[string]bool
	want     map[string]map[string]bool // nil names: everything
	has      map[string]map[string]string
	nonce    map[string]string
	inbox    []*answer // received and not answered yet
}

var walked = []string{clusters, endpoints, listeners, routes, mark}

func (w *walk) run(seed uint64) {
	w.sets, w.has = sets{}, map[string]map[string]string{}
	for _, typeURL := range walked {
		w.has[typeURL] = map[string]string{}
	}
	w.want = map[string]map[string]bool{endpoints: {}, routes: {}}
	w.refuses = seed%2 == 1
	w.publish()
	w.reconnect()
	for range 30 {
		switch w.rng.IntN(10) {
		case 0, 1, 2:
			w.publish()
		case 3, 4:
			w.rename()
		case 5:
			if w.rng.IntN(4) == 0 {
				w.reconnect()
			}
		default:
			w.receive()
			w.answer(w.rng.IntN(len(w.inbox) + 1))
		}
	}
	if w.refuses { // what a refusal holds back is held back until the client takes something else, or comes back
		w.refuses = false
		w.reconnect()
	}
	w.answerAll()
	for _, typeURL := range walked {
		require.Equal(w.t, w.expected(typeURL), w.has[typeURL], "seed %d: %s", seed, typeURL)
	}
	w.client.cancel()
}

// publish changes a few resources of some types. The clusters refer to endpoints that the client
// may or may not want.
func (w *walk) publish() {
	w.revision++
	w.sets = maps.Clone(w.sets)
	for _, typeURL := range walked[:4] {
		if w.rng.IntN(2) == 0 {
			continue
		}
		var upserts []*served.Resource
		for range w.rng.IntN(3) {
			upserts = append(upserts, res(w.name(), fmt.Sprint(w.rng.IntN(4))))
		}
		w.sets[typeURL] = w.sets[typeURL].With(upserts, []string{w.name()})
		if w.rng.IntN(8) == 0 { // a new line of sets, as after a restart of the server
			w.sets[typeURL] = served.NewSet(slices.Collect(w.sets[typeURL].All())...)
		}
	}
	w.sets[mark] = set(fmt.Sprintf("mark=%d", w.revision))
	w.s.publish(fmt.Sprintf("r%d", w.revision), w.sets)
}

func (w *walk) name() string { return fmt.Sprintf("n%d", w.rng.IntN(6)) }

// reconnect opens a stream and asks for everything again. A delta client names what it has.
func (w *walk) reconnect() {
	if w.client != nil {
		w.client.cancel()
	}
	w.client, w.asked, w.nonce, w.inbox = w.connect(w.s), map[string]bool{}, map[string]string{}, nil
	_, incremental := w.client.form.(deltaForm)
	for _, typeURL := range walked {
		if !incremental && named(typeURL) {
			w.has[typeURL] = map[string]string{} // what is gone meanwhile would not be said
		}
		if names := w.names(typeURL); !named(typeURL) || len(names) > 0 {
			w.client.send(ask{typeURL: typeURL, names: names, subscribe: names, held: w.has[typeURL]})
			w.asked[typeURL] = true
		}
	}
}

func (w *walk) names(typeURL string) []string { return slices.Sorted(maps.Keys(w.want[typeURL])) }

// rename adds a name to what the client wants, or takes one away.
func (w *walk) rename() {
	typeURL, name := []string{endpoints, routes}[w.rng.IntN(2)], w.name()
	a := ask{typeURL: typeURL, nonce: w.nonce[typeURL]}
	if w.want[typeURL][name] {
		delete(w.want[typeURL], name)
		delete(w.has[typeURL], name)
		a.unsubscribe = []string{name}
	} else {
		w.want[typeURL][name] = true
		a.subscribe = []string{name}
	}
	if _, incremental := w.client.form.(deltaForm); incremental {
		a.nonce = ""
	} else if !w.asked[typeURL] {
		a.nonce = "junk"
	}
	if !w.asked[typeURL] && len(a.subscribe) == 0 {
		return
	}
	w.asked[typeURL] = true
	a.names = w.names(typeURL)
	w.client.send(a)
}

// receive takes in everything that the server has to say now.
func (w *walk) receive() {
	for _, a := range w.client.everything() {
		w.apply(a)
		w.inbox = append(w.inbox, a)
	}
}

func (w *walk) apply(a *answer) {
	_, incremental := w.client.form.(deltaForm)
	if !incremental && !named(a.typeURL) {
		w.has[a.typeURL] = map[string]string{}
	}
	for _, r := range a.resources {
		name, version, _ := strings.Cut(r, "=")
		if !named(a.typeURL) || w.want[a.typeURL][name] {
			w.has[a.typeURL][name] = version
		}
	}
	for _, name := range a.removed {
		delete(w.has[a.typeURL], name)
	}
}

// answer accepts or refuses a few responses. The client applies what it refuses, too: this test is
// only about the protocol.
func (w *walk) answer(n int) {
	for _, a := range w.inbox[:n] {
		w.nonce[a.typeURL] = a.nonce
		reply := ask{typeURL: a.typeURL, nonce: a.nonce, names: w.names(a.typeURL)}
		if w.refuses && w.rng.IntN(4) == 0 {
			reply.refusal = "no reason"
		}
		w.client.send(reply)
	}
	w.inbox = w.inbox[n:]
}

// answerAll answers until the server has nothing more to send. It may have waited for an answer.
func (w *walk) answerAll() {
	for {
		w.receive()
		if len(w.inbox) == 0 {
			return
		}
		w.answer(len(w.inbox))
	}
}

func (w *walk) expected(typeURL string) map[string]string {
	_, incremental := w.client.form.(deltaForm)
	all := map[string]string{}
	for r := range w.sets[typeURL].All() {
		if !named(typeURL) || w.want[typeURL][r.Name] {
			all[r.Name] = r.Version
		}
	}
	if !incremental && named(typeURL) { // in this form nothing says that these are gone
		for name, version := range w.has[typeURL] {
			if w.sets[typeURL].Get(name) == nil {
				all[name] = version
			}
		}
	}
	return all
}

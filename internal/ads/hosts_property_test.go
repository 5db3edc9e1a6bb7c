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

// In each run, hosts come, go and swap their domains at random, and some are wrong. As Envoy does,
// the client applies a response as a whole, or refuses it if a domain would be in two hosts or a
// host is wrong. Once the wrong hosts are corrected or removed, it has all.
func TestRefusedHostsComeWhenNothingIsInTheirWay(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) {
		makeBeforeBreak(limit)(cfg)
		withHosts(cfg)
		cfg.Plan.Stages[2].Types = []string{routes, hosts}
	})
	for seed := range uint64(400) {
		(&domainsWalk{t: t, s: s, seed: seed, rng: rand.New(rand.NewPCG(seed, 5))}).run()
	}
}

// domainsWalk is one run. A host's version is its domain, with a mark if it is wrong.
type domainsWalk struct {
	t    *testing.T
	s    *server
	seed uint64
	rng  *rand.Rand

	revision int
	want     map[string]string
	client   *client
	has      map[string]string
	log      []string
}

const wrong = "!"

func (w *domainsWalk) run() {
	w.want, w.has = map[string]string{}, map[string]string{}
	w.change()
	w.correct()
	w.client = w.s.delta()
	w.client.ask(routes, "80")
	w.client.ask(hosts)
	w.answerAll()
	for range 1 + w.rng.IntN(4) {
		w.change()
		w.publish()
		w.answerAll()
	}
	w.correct()
	w.answerAll()
	require.Equal(w.t, w.want, w.has, "seed %d: after %v", w.seed, w.log)
	w.client.cancel()
}

// change gives some hosts other domains. No domain is in two hosts.
func (w *domainsWalk) change() {
	free := []string{"d0", "d1", "d2", "d3", "d4", "d5"}
	var moving []string
	for _, name := range []string{"80/a", "80/b", "80/c", "80/d", "80/e"} {
		if _, there := w.want[name]; !there || w.rng.IntN(2) == 0 {
			moving = append(moving, name)
			delete(w.want, name)
		}
	}
	free = slices.DeleteFunc(free, func(d string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(w.want)), func(of string) bool { return strings.TrimSuffix(of, wrong) == d })
	})
	for i, at := range w.rng.Perm(len(free))[:len(moving)] {
		if w.rng.IntN(5) == 0 && len(w.want) > 0 {
			continue // it goes
		}
		w.want[moving[i]] = free[at]
		if w.rng.IntN(4) == 0 {
			w.want[moving[i]] += wrong
		}
	}
}

// correct publishes the same, with nothing wrong in it.
func (w *domainsWalk) correct() {
	for name, domain := range w.want {
		switch {
		case !strings.HasSuffix(domain, wrong):
		case w.rng.IntN(4) == 0 && len(w.want) > 1:
			delete(w.want, name)
		default:
			w.want[name] = strings.TrimSuffix(domain, wrong)
		}
	}
	w.publish()
}

func (w *domainsWalk) publish() {
	w.revision++
	var all []*served.Resource
	for name, domain := range w.want {
		all = append(all, res(name, domain))
	}
	w.log = append(w.log, fmt.Sprint("published ", w.want))
	w.s.publish(fmt.Sprintf("r%d", w.revision), sets{routes: set("80=1"), hosts: served.NewSet(all...)})
}

// answerAll answers until the server has nothing more to send.
func (w *domainsWalk) answerAll() {
	for all := w.client.everything(); len(all) > 0; all = w.client.everything() {
		for _, a := range all {
			w.answer(a)
		}
	}
}

func (w *domainsWalk) answer(a *answer) {
	reply := ask{typeURL: a.typeURL, nonce: a.nonce}
	if a.typeURL == hosts {
		next := maps.Clone(w.has)
		for _, name := range a.removed {
			delete(next, name)
		}
		for _, r := range a.resources {
			name, domain, _ := strings.Cut(r, "=")
			next[name] = domain
		}
		if reply.refusal = complaint(next); reply.refusal == "" {
			w.has = next
		}
		w.log = append(w.log, fmt.Sprintf("%v -%v: %s", a.resources, a.removed, reply.refusal))
	}
	w.client.send(reply)
}

// complaint returns Envoy's reason, which names no host.
func complaint(all map[string]string) string {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		domain := all[name]
		if seen[domain] || strings.HasSuffix(domain, wrong) {
			return "duplicate entry of domain " + domain
		}
		seen[domain] = true
	}
	return ""
}

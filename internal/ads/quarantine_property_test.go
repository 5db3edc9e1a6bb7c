package ads_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// In each run, a mesh changes at random while a client refuses certain versions of resources. Of a
// refused response it applies everything else, some of it, or nothing. At the end it has the newest
// version of each resource that it does not refuse, and of each other the version that it accepted
// last. When the mesh is corrected it has exactly the mesh.
func TestAClientThatRefusesSomeResourcesHasAllOthers(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*ads.Config){
		"no plan":           quarantining,
		"in parts":          func(cfg *ads.Config) { quarantining(cfg); cfg.MostBytes = 120 },
		"make before break": makeBeforeBreak(limit),
		"impatient":         makeBeforeBreak(time.Nanosecond), // answers are hardly ever waited for
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachForm(t, func(t *testing.T, connect func(*server) *client) {
				for seed := range uint64(25) {
					s := serve(t, configure)
					(&picky{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 2)), form: connect, unheard: name == "impatient"}).run(seed)
				}
			})
		})
	}
}

// picky is one run: a model of what is published, and of a client that refuses versions that begin
// with "bad".
type picky struct {
	t    *testing.T
	s    *server
	rng  *rand.Rand
	form func(*server) *client

	client   *client
	whole    bool // a response says everything that there is
	unheard  bool // answers may come too late: observers may miss what only those told
	names    bool // the client names what it refuses
	revision int
	sets     sets
	has      map[string]map[string]string
	// accepted is the revision at which the client accepted a name last, and missing the last that
	// did not have it.
	accepted, missing map[string]map[string]int
	inbox             []*answer
}

var tasted = []string{clusters, endpoints, listeners}

// pickiest is how many names there are of a type.
const pickiest = 12

func (p *picky) run(seed uint64) {
	p.sets, p.has, p.accepted, p.missing = sets{}, map[string]map[string]string{}, map[string]map[string]int{}, map[string]map[string]int{}
	for _, typeURL := range tasted {
		p.has[typeURL], p.accepted[typeURL], p.missing[typeURL] = map[string]string{}, map[string]int{}, map[string]int{}
	}
	p.publish(true)
	p.client = p.form(p.s)
	_, incremental := p.client.form.(deltaForm)
	p.whole, p.names = !incremental, seed%3 == 0
	p.client.ask(clusters)
	p.client.ask(endpoints, p.wanted()...)
	p.client.ask(listeners)
	for range 25 {
		if p.rng.IntN(2) == 0 {
			p.publish(true)
		}
		p.receive()
		p.answer(p.rng.IntN(len(p.inbox) + 1))
	}
	p.answerAll()
	p.checkPicked(seed)
	p.publish(false)
	p.answerAll()
	for _, typeURL := range tasted {
		require.Equal(p.t, p.mesh(typeURL), p.has[typeURL], "seed %d: %s, all good", seed, typeURL)
		require.Empty(p.t, stateOf(p.t, p.s)[typeURL].Refused, "seed %d: %s", seed, typeURL)
	}
	p.client.cancel()
}

func (p *picky) wanted() (names []string) {
	for i := range pickiest {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return names
}

// publish changes the mesh. If it is to be good, everything that is bad becomes good.
func (p *picky) publish(bad bool) {
	p.revision++
	p.sets = maps.Clone(p.sets)
	for _, typeURL := range tasted {
		var upserts []*served.Resource
		for range p.rng.IntN(pickiest) {
			version := fmt.Sprint(p.rng.IntN(4))
			if bad && p.rng.IntN(4) == 0 {
				version = "bad" + version
			}
			upserts = append(upserts, res(fmt.Sprintf("n%d", p.rng.IntN(pickiest)), version))
		}
		removed := []string{fmt.Sprintf("n%d", p.rng.IntN(pickiest))}
		if p.whole && named(typeURL) {
			removed = nil // which this form cannot say
		}
		next := p.sets[typeURL].With(upserts, removed)
		if !bad {
			next = next.With(mended(next), nil)
		}
		if p.rng.IntN(8) == 0 { // a new line of sets
			next = served.NewSet(slices.Collect(next.All())...)
		}
		p.sets[typeURL] = next
		for _, name := range p.wanted() {
			if next.Get(name) == nil {
				p.missing[typeURL][name] = p.revision
			}
		}
	}
	p.s.publish(fmt.Sprintf("r%d", p.revision), p.sets)
}

func mended(set *served.Set) (good []*served.Resource) {
	for r := range set.All() {
		if strings.HasPrefix(r.Version, "bad") {
			good = append(good, res(r.Name, "good"))
		}
	}
	return good
}

func (p *picky) mesh(typeURL string) map[string]string {
	all := map[string]string{}
	for r := range p.sets[typeURL].All() {
		all[r.Name] = r.Version
	}
	return all
}

func (p *picky) checkPicked(seed uint64) {
	for _, typeURL := range tasted {
		for name, version := range p.mesh(typeURL) {
			has := p.has[typeURL][name]
			if !strings.HasPrefix(version, "bad") {
				require.Equal(p.t, version, has, "seed %d: %s %s, which it takes", seed, typeURL, name)
			} else if (!p.unheard || !p.whole) && p.accepted[typeURL][name] > p.missing[typeURL][name] {
				require.NotEmpty(p.t, has, "seed %d: %s %s, which it took before", seed, typeURL, name)
			}
		}
	}
}

// receive takes in everything that the server has to say now.
func (p *picky) receive() {
	p.inbox = append(p.inbox, p.client.everything()...)
}

func (p *picky) answer(n int) {
	for _, a := range p.inbox[:n] {
		reply := ask{typeURL: a.typeURL, nonce: a.nonce, refusal: p.take(a)}
		if named(a.typeURL) {
			reply.names = p.wanted()
		}
		p.client.send(reply)
	}
	p.inbox = p.inbox[n:]
}

// take applies a response, or some of it if the client refuses it, and returns the reason then.
func (p *picky) take(a *answer) string {
	var bad []string
	good := map[string]string{}
	for _, r := range a.resources {
		if name, version, _ := strings.Cut(r, "="); strings.HasPrefix(version, "bad") {
			bad = append(bad, name)
		} else {
			good[name] = version
		}
	}
	absolute := p.whole && !named(a.typeURL)
	greed := 0 // everything that is good
	if len(bad) > 0 && !absolute {
		greed = p.rng.IntN(3)
	} else if len(bad) > 0 {
		greed = p.rng.IntN(2)
	}
	if greed == 1 { // nothing
		return p.reason(bad)
	}
	has := p.has[a.typeURL]
	for name, version := range good {
		if greed == 0 || p.rng.IntN(2) == 0 {
			has[name] = version
			if revision, err := strconv.Atoi(a.revision[1:]); len(bad) == 0 && err == nil {
				p.accepted[a.typeURL][name] = revision
			}
		}
	}
	for _, name := range a.removed {
		delete(has, name)
	}
	if absolute {
		maps.DeleteFunc(has, func(name, _ string) bool { return good[name] == "" && !slices.Contains(bad, name) })
	}
	return p.reason(bad)
}

func (p *picky) reason(bad []string) string {
	switch {
	case len(bad) == 0:
		return ""
	case p.names:
		return "Error adding/updating " + strings.Join(bad, ": no such thing, ") + ": no such thing"
	default:
		return "no such thing"
	}
}

// answerAll answers until the server has nothing more to send, and nothing is in doubt.
func (p *picky) answerAll() {
	for {
		p.receive()
		if len(p.inbox) == 0 && !slices.ContainsFunc(p.s.ads.Streams()[0].Types(), func(t ads.TypeState) bool { return t.InDoubt > 0 }) {
			return
		}
		p.answer(len(p.inbox))
	}
}

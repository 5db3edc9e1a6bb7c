package push_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/randommesh"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// TestStreamsEndUpWithATranslationFromScratch has simulated Envoys follow a random history over
// real streams: some answer slowly or not at all, some refuse at random, some come back with what
// they had and some without. On the way nothing leads to a cluster that is not there yet, or no
// longer. In the end each has, of all that it asks for, what a new engine would give it, and
// nothing that it waits for is missing.
//
// PGMESH_MESHES and PGMESH_SEED are as for TestIncrementalPushesEqualATranslationFromScratch:
// PGMESH_MESHES=1 and the seed of a failure replay it.
func TestStreamsEndUpWithATranslationFromScratch(t *testing.T) {
	t.Parallel()
	golden, template := goldenInputs(t), randommesh.NewTemplate(t)
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(t, shard, 120) {
				sailed := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					dice := rand.New(rand.NewPCG(seed, 3))
					if dice.IntN(4) == 0 {
						newStreamRun(t, dice, golden, golden.Nodes).run()
					} else {
						newStreamRun(t, dice, template, template.Nodes(t)).run()
					}
				})
				if !sailed {
					return
				}
			}
		})
	}
}

// streamRun is one history, with the Envoys that follow it.
type streamRun struct {
	t       *testing.T
	dice    *rand.Rand
	history []kinds.Batch
	bench   *bench
	envoys  []*runner
}

// behaviour is how an Envoy answers during a run.
type behaviour int

const (
	prompt    behaviour = iota // accepts everything at once
	slow                       // accepts one response after another, now and then
	stuck                      // accepts nothing until the end
	refusing                   // refuses some responses
	restless                   // reconnects with what it had
	selective                  // refuses some resources, whenever they come
	behaviours
)

// runner is a simulated Envoy with a behaviour.
type runner struct {
	*simulated

	behaviour behaviour
	view      *served.Subscriber // of the same, from beside
	// lost are clusters that something leads to, and that are not there, in some state of the mesh.
	lost map[string]bool
}

// patience is how many of the responses that it has an Envoy takes now.
func (e *runner) patience(dice *rand.Rand) int {
	if e.behaviour == prompt {
		return len(e.inbox)
	}
	return dice.IntN(len(e.inbox) + 1)
}

func newStreamRun(t *testing.T, dice *rand.Rand, variety randommesh.Variety, nodes []*corev3.Node) *streamRun {
	t.Helper()
	v := &streamRun{t: t, dice: dice, history: randommesh.History(t, dice, variety, 2+dice.IntN(8)), bench: newBench()}
	conn := v.bench.listen(t)
	for _, chosen := range dice.Perm(len(nodes))[:1+dice.IntN(3)] {
		proxy := &envoy{nodes[chosen], dice.IntN(2) == 0}
		e := &runner{
			simulated: simulate(t, conn, proxy), behaviour: behaviour(dice.IntN(int(behaviours))), view: v.bench.open(t, proxy), lost: map[string]bool{},
		}
		switch e.behaviour {
		case prompt, slow, stuck:
			e.taken = e.requireNothingAstray
		case restless:
			if proxy.incremental { // or else nobody knows what it has when it comes back
				e.taken = e.requireNothingAstray
			}
		case selective:
			e.picky = newPicky(dice)
		case refusing, behaviours: // what is refused is not there
		}
		v.envoys = append(v.envoys, e)
	}
	return v
}

func (v *streamRun) run() {
	v.t.Helper()
	for _, b := range v.history {
		v.bench.push(b.Changes)
		for _, e := range v.envoys {
			e.look()
		}
		v.advance()
	}
	v.finish()
}

// advance has some of them do something.
func (v *streamRun) advance() {
	for range v.dice.IntN(6) {
		e := v.envoys[v.dice.IntN(len(v.envoys))]
		if e.cancel == nil || e.behaviour == restless && v.dice.IntN(4) == 0 {
			if v.dice.IntN(4) == 0 {
				e.forget()
			}
			e.connect()
		}
		if e.behaviour == stuck {
			continue
		}
		e.receive()
		for n := e.patience(v.dice); n > 0; n-- {
			e.answerNext(e.behaviour == refusing && v.dice.IntN(4) == 0)
		}
	}
}

// look notes what is amiss in the mesh itself.
func (e *runner) look() {
	there := map[string]bool{}
	for r := range e.view.Snapshot().Sets[push.ClusterType].All() {
		there[r.Name] = true
	}
	for _, typeURL := range leading {
		for r := range e.view.Snapshot().Sets[typeURL].All() {
			_, h := read(r.Body)
			for _, name := range h.leads {
				if !there[name] {
					e.lost[name] = true
				}
			}
		}
	}
}

// requireNothingAstray wants each cluster to be there when something leads to it, and to stay for
// as long.
func (e *runner) requireNothingAstray() {
	e.t.Helper()
	for _, name := range e.astray() {
		require.Contains(e.t, e.lost, name, "%s (incremental: %v) sends requests to a cluster that it cannot use", e.proxy.GetId(), e.proxy.incremental)
	}
}

// finish brings all of them to the end of the history. Who refused something at random comes back,
// for nobody can tell what it would take.
func (v *streamRun) finish() {
	v.t.Helper()
	for _, e := range v.envoys {
		if e.cancel == nil || e.refused {
			e.taken = nil // what it is sent first need not be in order
			e.connect()
		}
		e.answerAll()
		v.require(e.simulated)
		e.close()
		e.view.Close()
	}
}

// require wants an Envoy to have what a new engine would give it. What it refuses it may have as it
// was, or not at all; and who refuses something keeps what is to go, and what is to be empty, for
// it may be using that.
func (v *streamRun) require(e *simulated) {
	v.t.Helper()
	fresh := newBench()
	fresh.push(v.bench.standing())
	from := fresh.open(v.t, e.proxy)
	defer from.Close()
	sets := from.Snapshot().Sets
	var refused func(typeURL, name string) bool
	refused = func(typeURL, name string) bool {
		if typeURL == push.VirtualHostType && refused(push.RouteType, ownerOf(name)) {
			return true
		}
		r := sets[typeURL].Get(name)
		return r != nil && e.picky != nil && (r.Empty || e.picky.dislikes(r.Body.GetValue()))
	}
	for typeURL, set := range sets {
		want, have := map[string]string{}, map[string]string{}
		for r := range set.All() {
			if e.interested(typeURL, r.Name) && e.uses(typeURL, r.Name) && !refused(typeURL, r.Name) {
				want[r.Name] = string(r.Body.GetValue())
			}
		}
		for name, h := range e.has[typeURL] {
			if !refused(typeURL, name) && e.uses(typeURL, name) && (set.Get(name) != nil || e.isTold(typeURL)) {
				have[name] = string(h.body)
			}
		}
		if !maps.Equal(want, have) {
			v.t.Fatalf("%s (incremental: %v): %s has not what it would have from scratch: %s", e.proxy.GetId(), e.proxy.incremental, typeURL, unlike(have, want))
		}
	}
	excused := func(typeURL, name string) bool {
		return refused(typeURL, name) || e.picky != nil && sets[typeURL].Get(name) == nil
	}
	for ref := range e.warming {
		require.True(v.t, excused(ref.TypeURL, ref.Name), "what refers to %s cannot be used yet", ref.Name)
	}
	for _, typeURL := range []string{push.EndpointType, push.RouteType} {
		for name := range e.wants[typeURL] {
			if !excused(typeURL, name) {
				require.Contains(v.t, e.has[typeURL], name, "%s has never come, which something waits for", typeURL)
			}
		}
	}
}

// isTold tells whether an Envoy is told of what is gone. A state of the world has no words for that
// of what is asked for by name, and nothing is taken from who refuses something.
func (e *simulated) isTold(typeURL string) bool {
	return e.picky == nil && (e.proxy.incremental || !slices.Contains(byName, typeURL))
}

// unlike names where two differ.
func unlike(have, want map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if h, ok := have[name]; !ok {
			return name + " is missing"
		} else if h != want[name] {
			return name + " is stale"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[name]; !ok {
			return name + " should be gone"
		}
	}
	return "nothing"
}

package push_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/randommesh"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// TestIncrementalPushesEqualATranslationFromScratch has proxies of different sorts come and go
// while a mesh changes at random. In the end each has, byte for byte, what a new engine gives a new
// proxy of its sort from the last state.
//
// PGMESH_MESHES tries more histories than the usual number of each variety, and PGMESH_SEED begins
// at another seed:
//
//	PGMESH_MESHES=100000 PGMESH_SEED=3000 go test ./discovery/push -run TestIncrementalPushesEqualATranslationFromScratch -timeout 0
//
// What a failure prints has been made as short as it can be while it still fails.
func TestIncrementalPushesEqualATranslationFromScratch(t *testing.T) {
	t.Parallel()
	golden, template := goldenInputs(t), randommesh.NewTemplate(t)
	for name, v := range map[string]struct {
		variety randommesh.Variety
		nodes   []*corev3.Node
	}{
		"golden": {golden, slices.Concat(golden.Nodes, template.Nodes(t))}, "template": {template, template.Nodes(t)}, "rivals": {randommesh.NewRivals(), template.Nodes(t)},
	} {
		for shard := range shards {
			t.Run(fmt.Sprintf("%s/%d", name, shard), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds(t, shard, 200) {
					dice := rand.New(rand.NewPCG(seed, 2))
					s := story(dice, randommesh.History(t, dice, v.variety, 1+dice.IntN(6)), v.nodes)
					if s.differs(t) != "" {
						s = s.shortened(t)
						t.Fatalf("seed %d: %s\n%s", seed, s.differs(t), s)
					}
				}
			})
		}
	}
}

// goldenInputs are those of translate.
func goldenInputs(t testing.TB) *randommesh.Golden {
	t.Helper()
	files, err := filepath.Glob("../translate/testdata/*/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return randommesh.ReadGolden(t, files)
}

const shards = 8

// seeds are those of one shard: the usual number, or PGMESH_MESHES, from PGMESH_SEED on.
func seeds(t testing.TB, shard, usual int) func(yield func(uint64) bool) {
	t.Helper()
	first, n := knob(t, "PGMESH_SEED", 0), knob(t, "PGMESH_MESHES", usual)
	return func(yield func(uint64) bool) {
		for i := shard; i < n; i += shards {
			if !yield(uint64(first + i)) {
				return
			}
		}
	}
}

func knob(t testing.TB, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// event is one thing that happens: a batch, a change of the trust, or a proxy that comes or goes.
type event struct {
	changes []kinds.Change
	trust   *mesh.Trust
	comes   *envoy
	goes    *envoy
}

// events are what happens to an engine.
type events []event

// story spreads the coming and going of a few proxies, and some revocations, over a history.
func story(dice *rand.Rand, history []kinds.Batch, nodes []*corev3.Node) (all events) {
	for _, b := range history {
		all = append(all, event{changes: b.Changes})
	}
	for _, chosen := range dice.Perm(len(nodes))[:1+dice.IntN(4)] {
		all = slices.Insert(all, dice.IntN(len(all)), event{comes: &envoy{nodes[chosen], dice.IntN(2) == 0}})
	}
	for range dice.IntN(5) / 2 {
		all = slices.Insert(all, dice.IntN(len(all)+1), event{trust: drawTrust(dice)})
	}
	for range dice.IntN(3) {
		at := dice.IntN(len(all))
		if n := all[at].comes; n != nil {
			all = slices.Insert(all, at+1+dice.IntN(len(all)-at), event{goes: n})
			all = append(all, event{comes: n})
		}
	}
	return all
}

// drawTrust draws identities of servers that the golden inputs and the template have.
func drawTrust(dice *rand.Rand) *mesh.Trust {
	out := &mesh.Trust{}
	for _, identity := range []string{"ns/default/sa/reviews", "ns/default/sa/stolen", "ns/default/sa/good", "ns/shop/sa/web", "ns/shop/sa/cart", "ns/bank/sa/pay"} {
		if dice.IntN(3) == 0 {
			out.Revoked = append(out.Revoked, identity)
		}
	}
	if dice.IntN(2) == 0 {
		out.Federated = []string{"partner.example"}
	}
	return out
}

// differs runs the story and returns the first difference between what a proxy has in the end and
// what it would have from scratch; "" if there is none.
func (s events) differs(t testing.TB) string {
	t.Helper()
	var log bytes.Buffer
	b := newLoggingBench(&log)
	proxies := map[*envoy]*served.Subscriber{}
	defer func() {
		for _, p := range proxies {
			p.Close()
		}
	}()
	told, heard := standing{bench: b}, audiences{}
	for i, e := range s {
		switch {
		case e.comes != nil && proxies[e.comes] == nil:
			proxies[e.comes] = b.open(t, e.comes)
		case e.goes != nil && proxies[e.goes] != nil:
			proxies[e.goes].Close()
			delete(proxies, e.goes)
		case e.changes != nil:
			b.push(e.changes)
		case e.trust != nil && b.mesh != nil:
			b.believe(*e.trust)
		}
		if d := told.stale(); d != "" {
			return d
		}
		if i%3 != 0 { // several changes at once, too
			heard.hear(b.Audiences().Changed())
		}
	}
	if d := heard.wrong(b); d != "" {
		return d
	}
	if strings.Contains(log.String(), "level=ERROR") {
		return "valid resources became what Envoy would refuse: " + log.String()
	}
	for _, e := range s {
		if b.mesh == nil || e.comes == nil || proxies[e.comes] == nil {
			continue
		}
		if d := b.differs(t, e.comes, proxies[e.comes]); d != "" {
			return e.comes.GetId() + ": " + d
		}
	}
	return b.tellsOtherwise(t, slices.Collect(maps.Keys(proxies)))
}

// tellsOtherwise compares the engine's problems with those of a new engine that has the same
// proxies.
func (b *bench) tellsOtherwise(t testing.TB, proxies []*envoy) string {
	t.Helper()
	if b.mesh == nil {
		return ""
	}
	fresh := b.fresh()
	for _, p := range proxies {
		defer fresh.open(t, p).Close()
	}
	told, _ := b.Problems()
	wanted, _ := fresh.Problems()
	if !slices.Equal(told, wanted) {
		return fmt.Sprintf("problems are stale:\n has %v\nwants %v", told, wanted)
	}
	return ""
}

// differs compares what a proxy has with what a new engine gives it.
func (b *bench) differs(t testing.TB, proxy *envoy, has *served.Subscriber) string {
	t.Helper()
	fresh := b.fresh()
	wants := fresh.open(t, proxy)
	defer wants.Close()
	if has.Snapshot() == nil {
		return "has no snapshot"
	}
	for typeURL := range wants.Snapshot().Sets {
		if d := difference(has.Snapshot().Sets[typeURL], wants.Snapshot().Sets[typeURL]); d != "" {
			return typeURL + " " + d
		}
	}
	for typeURL, set := range has.Snapshot().Sets {
		if wants.Snapshot().Sets[typeURL] == nil && set.Len() > 0 {
			return typeURL + " should be empty"
		}
	}
	return ""
}

// fresh is a new bench that was given the same state at once.
func (b *bench) fresh() *bench {
	fresh := newBench()
	fresh.push(b.standing())
	fresh.believe(*b.mesh.Trust())
	return fresh
}

// standing is the whole configuration, as changes.
func (b *bench) standing() (all []kinds.Change) {
	for _, k := range kinds.WithSecrets() {
		for r := range b.config.Snapshot().Of(k) {
			all = append(all, kinds.Change{Key: r.Key(), Resource: r})
		}
	}
	return all
}

// difference names the first resource in which two sets differ.
func difference(has, wants *served.Set) string {
	for r := range wants.All() {
		h := has.Get(r.Name)
		switch {
		case h == nil:
			return r.Name + " is missing"
		case !bytes.Equal(h.Body.GetValue(), r.Body.GetValue()):
			return fmt.Sprintf("%s is stale:\n has %s\nwants %s", r.Name, shown(h), shown(r))
		case h.Version != r.Version || h.Empty != r.Empty || !slices.Equal(h.Refs, r.Refs):
			return fmt.Sprintf("%s has the same bytes, and another version or other references: has %s %v %v, wants %s %v %v",
				r.Name, h.Version, h.Empty, h.Refs, r.Version, r.Empty, r.Refs)
		}
	}
	for r := range has.All() {
		if wants.Get(r.Name) == nil {
			return r.Name + " should be gone"
		}
	}
	return ""
}

func shown(r *served.Resource) string {
	m, err := r.Body.UnmarshalNew()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(m)
}

// shortened leaves out of a failing story what it also fails without.
func (s events) shortened(t testing.TB) events {
	t.Helper()
	for again := true; again; {
		again = false
		for _, shorter := range s.shorter() {
			if shorter.differs(t) != "" {
				s, again = shorter, true
				break
			}
		}
	}
	return s
}

// shorter are the stories that lack one thing: an event, or one change of a batch.
func (s events) shorter() (all []events) {
	for i, e := range s {
		all = append(all, slices.Delete(slices.Clone(s), i, i+1))
		for j := range e.changes {
			without := slices.Clone(s)
			without[i].changes = slices.Delete(slices.Clone(e.changes), j, j+1)
			if len(without[i].changes) > 0 {
				all = append(all, without)
			}
		}
	}
	return all
}

// String tells the story.
func (s events) String() string {
	var b strings.Builder
	for _, e := range s {
		switch {
		case e.comes != nil:
			fmt.Fprintf(&b, "--- %s comes (incremental: %v), metadata %v, locality %v\n", e.comes.GetId(), e.comes.incremental, e.comes.GetMetadata(), e.comes.GetLocality())
		case e.goes != nil:
			fmt.Fprintf(&b, "--- %s goes\n", e.goes.GetId())
		case e.trust != nil:
			fmt.Fprintf(&b, "--- trusts %+v\n", *e.trust)
		default:
			b.WriteString("--- a batch\n")
			for _, c := range e.changes {
				if c.Resource == nil {
					fmt.Fprintf(&b, "remove %s\n", c.Key)
				} else {
					b.WriteString(randommesh.Written([]*kinds.Resource{c.Resource}))
				}
			}
		}
	}
	return b.String()
}

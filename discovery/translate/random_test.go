package translate_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/randommesh"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/kinds"
)

// meshes is how many are tried. PGMESH_MESHES tries more.
func meshes(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("PGMESH_MESHES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	return 2000
}

// TestRandomMeshes translates random but valid meshes. Nothing panics, and nothing comes out that
// Envoy's own validators refuse. The same resources give the same bytes in whatever order, and in
// however many steps, they arrive. A real Envoy checks some of them.
func TestRandomMeshes(t *testing.T) {
	t.Parallel()
	s, askers, n := randommesh.ReadGolden(t, inputs(t)), validInputs(t), meshes(t)
	const shards = 8
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < n; seed += shards {
				tryMesh(t, s, askers, uint64(seed), seed/shards%10 == 0)
			}
		})
	}
}

// validInputs are those whose proxies are asked what they are given.
func validInputs(t *testing.T) (valid []input) {
	t.Helper()
	for _, file := range inputs(t) {
		if in := readInput(t, file); !in.Unchecked {
			valid = append(valid, in)
		}
	}
	return valid
}

func tryMesh(t *testing.T, s *randommesh.Golden, askers []input, seed uint64, byEnvoy bool) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 0))
	resources, in := s.Breed(t, dice), askers[dice.IntN(len(askers))]
	defer func() {
		if p := recover(); p != nil || t.Failed() {
			t.Fatalf("mesh %d, proxy %s: %v\n%s", seed, in.Proxy.Node, p, randommesh.Written(resources))
		}
	}()
	proxy := in.proxy(t)
	first := translated(mesh.Build(configstore.New().Apply(batchOf(1, resources)), nil), proxy)
	first.requireValid(t)
	dice.Shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
	require.Equal(t, encode(t, first), encode(t, translated(inSteps(dice, resources), proxy)))
	if checked := bootstrap(t, in, first); byEnvoy && !strings.Contains(checked.String(), `"/etc/certs/`) { // files that this machine lacks
		envoytest.Validate(t, checked)
	}
}

// inSteps builds a mesh in several revisions, each on top of the one before. One resource comes,
// goes and comes again.
func inSteps(dice *rand.Rand, resources []*kinds.Resource) *mesh.Mesh {
	store, revision := configstore.New(), int64(0)
	var m *mesh.Mesh
	step := func(b kinds.Batch) { m = mesh.Build(store.Apply(b), m) }
	for rest := resources; len(rest) > 0; {
		revision++
		n := 1 + dice.IntN(len(rest))
		step(batchOf(revision, rest[:n]))
		rest = rest[n:]
	}
	step(kinds.Batch{Revision: revision + 1, Changes: []kinds.Change{{Key: resources[0].Key()}}})
	step(batchOf(revision+2, resources[:1]))
	return m
}

func batchOf(revision int64, resources []*kinds.Resource) kinds.Batch {
	b := kinds.Batch{Revision: revision}
	for _, r := range resources {
		b.Changes = append(b.Changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	return b
}

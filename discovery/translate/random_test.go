package translate_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/envoytest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// stock is what random meshes are bred from: the resources of all inputs, which say everything that can be said of each kind, and their parts.
type stock struct {
	documents []*kinds.Document
	parts     map[string][]any // by the message type that they are of
	inputs    []input          // for their proxies
}

func readStock(t *testing.T) *stock {
	t.Helper()
	s := &stock{parts: map[string][]any{}}
	for _, file := range inputs(t) {
		in := readInput(t, file)
		if in.Unchecked {
			continue
		}
		s.inputs = append(s.inputs, in)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, documents, _ := strings.Cut(string(text), "\n---\n")
		parsed, err := kinds.Parse(file, []byte(documents))
		require.NoError(t, err)
		s.documents = append(s.documents, parsed...)
	}
	for _, d := range s.documents {
		if root, ok := schema.Root(d.Resource.Kind.Group, d.Resource.Kind.Name); ok {
			places(root, tree(t, d.Spec), func(typeName string, at *any) { s.parts[typeName] = append(s.parts[typeName], *at) })
		}
	}
	return s
}

func tree(t *testing.T, text []byte) any {
	t.Helper()
	var out any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// places visits each message in a tree, with its type. The visitor may replace it.
func places(of *schema.Type, in any, visit func(typeName string, at *any)) {
	members, _ := in.(map[string]any)
	for _, f := range of.Fields {
		value, there := members[f.Name]
		if !there || f.Type != schema.Message {
			continue
		}
		each := func(item any) any {
			places(schema.Types()[f.TypeRef], item, visit)
			visit(f.TypeRef, &item)
			return item
		}
		switch value := value.(type) {
		case []any:
			for i := range value {
				value[i] = each(value[i])
			}
		case map[string]any:
			if !f.Map {
				members[f.Name] = each(value)
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				value[key] = each(value[key])
			}
		}
	}
}

// breed makes some resources, in which parts stand that others had in their place. All are valid.
func (s *stock) breed(t *testing.T, dice *rand.Rand) []*kinds.Resource {
	t.Helper()
	var out []*kinds.Resource
	for i := range 3 + dice.IntN(12) {
		parent := s.documents[dice.IntN(len(s.documents))]
		d := *parent.Resource
		spec := s.graft(t, dice, parent)
		message, err := d.Kind.Decode(spec)
		require.NoError(t, err)
		d.Spec = kinds.SpecOf(message)
		if d.Kind.Name != "MeshConfig" && d.Kind.Name != "MeshNetworks" {
			d.Name += "-" + strconv.Itoa(i)
		}
		if !slices.ContainsFunc(out, func(r *kinds.Resource) bool { return r.Key() == d.Key() }) {
			out = append(out, &d)
		}
	}
	return out
}

// graft replaces a few parts of a spec by others of the same type, as long as that leaves it valid.
func (s *stock) graft(t *testing.T, dice *rand.Rand, parent *kinds.Document) []byte {
	t.Helper()
	spec, kind := []byte(parent.Spec), parent.Resource.Kind
	root, ok := schema.Root(kind.Group, kind.Name)
	require.True(t, ok)
	for range dice.IntN(4) {
		changed, count := tree(t, spec), 0
		places(root, changed, func(string, *any) { count++ })
		if count == 0 {
			break
		}
		chosen := dice.IntN(count)
		places(root, changed, func(typeName string, at *any) {
			if chosen--; chosen == -1 {
				*at = s.parts[typeName][dice.IntN(len(s.parts[typeName]))]
			}
		})
		text, err := json.Marshal(changed)
		require.NoError(t, err)
		if len(kind.Check(text, kinds.Meta{Name: parent.Resource.Name, Namespace: parent.Resource.Namespace})) == 0 {
			spec = text
		}
	}
	return spec
}

// meshes is how many are tried; PGMESH_MESHES tries more.
func meshes(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("PGMESH_MESHES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	return 2000
}

// TestRandomMeshes translates random but valid meshes: nothing panics, nothing comes out that Envoy's own validators refuse, and the
// same resources give the same bytes in whatever order, and in however many steps, they arrive. Some of them a real Envoy checks.
func TestRandomMeshes(t *testing.T) {
	t.Parallel()
	s, n := readStock(t), meshes(t)
	const shards = 8
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			for seed := shard; seed < n; seed += shards {
				s.try(t, uint64(seed), seed/shards%10 == 0)
			}
		})
	}
}

func (s *stock) try(t *testing.T, seed uint64, byEnvoy bool) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 0))
	resources, in := s.breed(t, dice), s.inputs[dice.IntN(len(s.inputs))]
	defer func() {
		if p := recover(); p != nil || t.Failed() {
			t.Fatalf("mesh %d, proxy %s: %v\n%s", seed, in.Proxy.Node, p, written(resources))
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

// inSteps builds a mesh in several revisions, each on top of the one before; one resource comes, goes and comes again.
func inSteps(dice *rand.Rand, resources []*kinds.Resource) *mesh.Mesh {
	store, revision := configstore.New(), int64(0)
	var m *mesh.Mesh
	step := func(b configstore.Batch) { m = mesh.Build(store.Apply(b), m) }
	for rest := resources; len(rest) > 0; {
		revision++
		n := 1 + dice.IntN(len(rest))
		step(batchOf(revision, rest[:n]))
		rest = rest[n:]
	}
	step(configstore.Batch{Revision: revision + 1, Changes: []configstore.Change{{Key: resources[0].Key()}}})
	step(batchOf(revision+2, resources[:1]))
	return m
}

func batchOf(revision int64, resources []*kinds.Resource) configstore.Batch {
	b := configstore.Batch{Revision: revision}
	for _, r := range resources {
		b.Changes = append(b.Changes, configstore.Change{Key: r.Key(), Resource: r})
	}
	return b
}

// written shows resources to who has to find out what was wrong with them.
func written(resources []*kinds.Resource) string {
	text, err := kinds.MarshalYAML(resources...)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

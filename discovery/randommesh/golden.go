package randommesh

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Golden breeds random meshes from the resources of golden inputs, which have every field of each
// kind, and from their parts.
type Golden struct {
	Documents []*kinds.Document
	// Nodes are the proxies that the inputs are for.
	Nodes []*corev3.Node

	parts map[string][]any // by their message type
}

// ReadGolden reads golden inputs: files with a document that names a proxy, and documents of
// resources. It leaves out resources that break the rules of their kinds.
func ReadGolden(t testing.TB, files []string) *Golden {
	t.Helper()
	s := &Golden{parts: map[string][]any{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		head, resources, found := bytes.Cut(text, []byte("\n---\n"))
		require.True(t, found, "%s: want a document that names the proxy, then resources", file)
		var asker asker
		require.NoError(t, yaml.Unmarshal(head, &asker), file)
		if asker.Unchecked {
			continue
		}
		documents, err := kinds.Parse(file, resources)
		require.NoError(t, err)
		s.Documents = append(s.Documents, documents...)
		s.Nodes = append(s.Nodes, asker.node(t))
	}
	for _, d := range s.Documents {
		if root, ok := schema.Root(d.Resource.Kind.Group, d.Resource.Kind.Name); ok {
			Parts(root, tree(t, d.Spec), func(typeName string, at *any) { s.parts[typeName] = append(s.parts[typeName], *at) })
		}
	}
	return s
}

// asker is the first document of an input.
type asker struct {
	Proxy struct {
		Node     string
		Metadata map[string]any
		Locality string // region/zone/subzone
	}
	Unchecked bool
}

func (a asker) node(t testing.TB) *corev3.Node {
	t.Helper()
	metadata, err := structpb.NewStruct(a.Proxy.Metadata)
	require.NoError(t, err)
	return &corev3.Node{Id: a.Proxy.Node, Metadata: metadata, Locality: locality(a.Proxy.Locality)}
}

// locality reads region/zone/subzone.
func locality(text string) *corev3.Locality {
	at := append(strings.SplitN(text, "/", 3), "", "")
	return &corev3.Locality{Region: at[0], Zone: at[1], SubZone: at[2]}
}

func tree(t testing.TB, text []byte) any {
	t.Helper()
	var out any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// Parts visits each message in a tree, with its type. The visitor may replace it.
func Parts(of *schema.Type, in any, visit func(typeName string, at *any)) {
	members, _ := in.(map[string]any)
	for _, f := range of.Fields {
		value, there := members[f.Name]
		if !there || f.Type != schema.Message {
			continue
		}
		each := func(item any) any {
			Parts(schema.Types()[f.TypeRef], item, visit)
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

// Begin draws three to fourteen resources, with some parts replaced by those of others.
func (s *Golden) Begin(t testing.TB, dice *rand.Rand) (out []*Draft) {
	t.Helper()
	for i := range 3 + dice.IntN(12) {
		d := s.bred(t, dice, i)
		if !slices.ContainsFunc(out, func(o *Draft) bool { return o.Key() == d.Key() }) {
			out = append(out, d)
		}
	}
	return out
}

// Breed draws a mesh that is not to be varied.
func (s *Golden) Breed(t testing.TB, dice *rand.Rand) (out []*kinds.Resource) {
	t.Helper()
	for _, d := range s.Begin(t, dice) {
		out = append(out, d.Resource)
	}
	return out
}

// Another draws a resource under one of a few names.
func (s *Golden) Another(t testing.TB, dice *rand.Rand) *Draft {
	t.Helper()
	return s.bred(t, dice, dice.IntN(6))
}

// Vary replaces parts of a resource.
func (s *Golden) Vary(t testing.TB, dice *rand.Rand, d *Draft) *Draft {
	t.Helper()
	return s.grafted(t, dice, d.Resource, d.spec)
}

func (s *Golden) bred(t testing.TB, dice *rand.Rand, i int) *Draft {
	t.Helper()
	parent := s.Documents[dice.IntN(len(s.Documents))]
	r := *parent.Resource
	r.CreateTime = age(dice)
	if r.Kind.Name != "MeshConfig" && r.Kind.Name != "MeshNetworks" {
		r.Name += "-" + strconv.Itoa(i)
	}
	return s.grafted(t, dice, &r, parent.Spec)
}

// grafted replaces a few parts of a spec by others of the same type, as long as the spec stays
// valid.
func (s *Golden) grafted(t testing.TB, dice *rand.Rand, of *kinds.Resource, spec []byte) *Draft {
	t.Helper()
	root, ok := schema.Root(of.Kind.Group, of.Kind.Name)
	require.True(t, ok)
	for range dice.IntN(4) {
		changed, count := tree(t, spec), 0
		Parts(root, changed, func(string, *any) { count++ })
		if count == 0 {
			break
		}
		chosen := dice.IntN(count)
		Parts(root, changed, func(typeName string, at *any) {
			if chosen--; chosen == -1 {
				*at = s.parts[typeName][dice.IntN(len(s.parts[typeName]))]
			}
		})
		text, err := json.Marshal(changed)
		require.NoError(t, err)
		if len(of.Kind.Check(text, kinds.Meta{Name: of.Name, Namespace: of.Namespace})) == 0 {
			spec = text
		}
	}
	message, err := of.Kind.Decode(spec)
	require.NoError(t, err)
	r := *of
	r.Spec = kinds.SpecOf(message)
	return &Draft{Resource: &r, spec: spec}
}

package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Validate returns what is wrong with a spec, a JSON tree whose numbers are json.Number. Meta is
// the metadata of its resource, nil if unknown. The paths start at "spec" and do not name the
// resource.
func Validate(kind *Kind, spec any, meta *Meta) []Violation {
	root, spec := rootOf(kind, spec)
	_, problems := schema.Validate(root, "spec", spec, meta)
	return violations(kind, problems)
}

// Check returns what is wrong with a stored resource: with its name, namespace, labels, annotations
// and spec.
func (k *Kind) Check(spec []byte, meta Meta) []Violation {
	tree, err := readTree(spec)
	if err != nil {
		return append(k.checkMetadata(&meta), Violation{Kind: k.Name, Path: "spec", Reason: err.Error()})
	}
	return k.CheckTree(Tree{tree}, meta)
}

// CheckTree is Check of a spec that was read already.
func (k *Kind) CheckTree(spec Tree, meta Meta) []Violation {
	return append(k.checkMetadata(&meta), Validate(k, spec.root, &meta)...)
}

func (k *Kind) checkMetadata(m *Meta) []Violation {
	return CheckMetadata(&Resource{Kind: k, Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations})
}

// Meta is the metadata that the rules of a kind can refer to.
type Meta = schema.Meta

// normalise checks the structure of a spec and returns its normal form. A nil spec counts as an
// empty one.
func normalise(kind *Kind, spec any) (any, []Violation) {
	root, spec := rootOf(kind, spec)
	normal, problems := schema.Check(root, "spec", spec)
	return normal, violations(kind, problems)
}

func rootOf(kind *Kind, spec any) (*schema.Type, any) {
	root, ok := schema.Root(kind.Group, kind.Name)
	if !ok {
		panic(fmt.Sprintf("the schema has no root for %s, generate it anew", kind.qualifiedName()))
	}
	if spec == nil {
		spec = map[string]any{}
	}
	return root, spec
}

func violations(kind *Kind, problems []schema.Problem) []Violation {
	list := make([]Violation, len(problems))
	for i, p := range problems {
		list[i] = Violation{Kind: kind.Name, Path: p.Path, Reason: p.Reason, Hint: p.Hint}
	}
	return list
}

// Tree is a spec as JSON that was read once, for those who look at all of it.
type Tree struct{ root any }

// SpecTree is the spec as it is written as JSON.
func (r *Resource) SpecTree() (Tree, error) {
	text, err := protojson.Marshal(r.Spec.Message())
	if err != nil {
		return Tree{}, fmt.Errorf("write the spec of %s as JSON: %w", r.Key(), err)
	}
	root, err := readTree(text)
	return Tree{root}, err
}

// readTree decodes JSON without losing a digit of its numbers.
func readTree(data []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return tree, nil
}

// Unsupported returns the fields of a stored spec that discovery does not act on. They are no
// mistakes: other readers of the resource may act on them.
func (k *Kind) Unsupported(spec []byte) ([]Violation, error) {
	tree, err := readTree(spec)
	if err != nil {
		return nil, err
	}
	return violations(k, schema.FindUnsupported(k.Group, k.Name, tree)), nil
}

package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Validate returns what is wrong with a spec, a JSON tree whose numbers are json.Number, of a resource with this metadata, nil if that is
// not known. The paths start at "spec"; which resource it is of, the caller knows.
func Validate(kind *Kind, spec any, meta *Meta) []Violation {
	root, spec := rootOf(kind, spec)
	_, problems := schema.Judge(root, "spec", spec, meta)
	return violations(kind, problems)
}

// Check returns what is wrong with a resource as it is stored, its key aside: with its labels and annotations, and its spec.
func (k *Kind) Check(spec []byte, meta Meta) []Violation {
	found := CheckMetadata(&Resource{Kind: k, Namespace: meta.Namespace, Name: meta.Name, Labels: meta.Labels, Annotations: meta.Annotations})
	tree, err := readTree(spec)
	if err != nil {
		return append(found, Violation{Kind: k.Name, Path: "spec", Reason: err.Error()})
	}
	return append(found, Validate(k, tree, &meta)...)
}

// Meta is what the rules of a kind may know of a resource beside its spec.
type Meta = schema.Meta

// normalise checks the structure of a spec and writes it in the one form that means the same everywhere. A nil spec is an empty one.
func normalise(kind *Kind, spec any) (any, []Violation) {
	root, spec := rootOf(kind, spec)
	normal, problems := schema.Check(root, "spec", spec)
	return normal, violations(kind, problems)
}

func rootOf(kind *Kind, spec any) (*schema.Type, any) {
	root, ok := schema.Root(kind.Group, kind.Name)
	if !ok {
		panic(fmt.Sprintf("the schema has no root for %s, generate it anew", kind.fullWord()))
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

// readTree decodes JSON without losing a digit of its numbers.
func readTree(data []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	return tree, nil
}

// Unsupported returns what a spec, as it is stored, says that discovery does not act on. It is no mistake: others may read it.
func (k *Kind) Unsupported(spec []byte) ([]Violation, error) {
	tree, err := readTree(spec)
	if err != nil {
		return nil, err
	}
	return violations(k, schema.FindUnsupported(k.Group, k.Name, tree)), nil
}

package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Validate returns what is wrong with the structure of a spec, a JSON tree whose numbers are json.Number. The paths start at
// "spec"; which resource it is of, the caller knows.
func Validate(kind *Kind, spec any) []Violation {
	_, violations := normalise(kind, spec)
	return violations
}

// normalise checks a spec and writes it in the one form that means the same everywhere. A nil spec is an empty one.
func normalise(kind *Kind, spec any) (any, []Violation) {
	root, ok := schema.Root(kind.Group, kind.Name)
	if !ok {
		panic(fmt.Sprintf("the schema has no root for %s, generate it anew", kind.fullWord()))
	}
	if spec == nil {
		spec = map[string]any{}
	}
	normal, problems := schema.Check(root, "spec", spec)
	violations := make([]Violation, len(problems))
	for i, p := range problems {
		violations[i] = Violation{Kind: kind.Name, Path: p.Path, Reason: p.Reason, Hint: p.Hint}
	}
	return normal, violations
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

package kinds

import (
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// isNameless reports whether a document claims to be no resource. Who mistypes a name, or forgets both,
// beside what only resources have, has made a mistake, and is told.
func isNameless(node *yaml.Node) bool {
	switch node.Kind {
	case yaml.SequenceNode:
		return true
	case yaml.MappingNode:
	default:
		return false
	}
	for i := 0; i < len(node.Content); i += 2 {
		if nearest.Word(node.Content[i].Value, []string{"apiVersion", "kind"}) != "" {
			return false
		}
	}
	return member(node, "metadata") == nil || member(node, "spec") == nil
}

// ofKuma is what is wrong with a document in the universal form of Kuma, which has a type in place of
// apiVersion and kind: one mistake, where each of its fields would be one.
func ofKuma(node *yaml.Node) (v Violation, is bool) {
	kind := member(node, "type")
	if kind == nil || kind.Kind != yaml.ScalarNode || kind.Value == "" || !unicode.IsUpper([]rune(kind.Value)[0]) ||
		member(node, "kind") != nil || member(node, "apiVersion") != nil || member(node, "mesh") == nil && member(node, "name") == nil {
		return Violation{}, false
	}
	v = Violation{
		Kind: kind.Value, Path: "type", Reason: kind.Value + " in this form is a resource of Kuma",
		Hint: "mcp-client import --from kuma brings it into the mesh, and mcp-client convert --from kuma prints what it becomes",
	}
	if name := member(node, "name"); name != nil {
		v.Name = name.Value
	}
	return v, true
}

package kinds

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// treeOf turns nodes into a JSON tree whose numbers are json.Number. Scalars follow YAML 1.2, so
// "yes" and "on" are strings.
func treeOf(node *yaml.Node) (any, []Violation) {
	t := &treeReader{following: map[*yaml.Node]bool{}}
	return t.value("", node), t.violations
}

type treeReader struct {
	violations []Violation
	following  map[*yaml.Node]bool // the targets of the aliases being followed, to detect cycles
	repeated   int                 // how many nodes were visited behind aliases
}

// maxRepeated bounds the expansion of aliases: a few lines of them can stand for billions of nodes.
const maxRepeated = 100_000

func (t *treeReader) add(path string, line int, reason, hint string) {
	t.violations = append(t.violations, Violation{Path: path, Line: line, Reason: reason, Hint: hint})
}

func (t *treeReader) value(path string, node *yaml.Node) any {
	if len(t.following) > 0 && !t.mayRepeat(path, node) {
		return nil
	}
	switch node.Kind {
	case yaml.AliasNode:
		return t.alias(path, node)
	case yaml.MappingNode:
		return t.object(path, node)
	case yaml.SequenceNode:
		items := make([]any, len(node.Content))
		for i, item := range node.Content {
			items[i] = t.value(schema.Item(path, i), item)
		}
		return items
	}
	return t.scalar(path, node)
}

func (t *treeReader) alias(path string, node *yaml.Node) any {
	if t.following[node.Alias] {
		t.add(path, node.Line, "the alias *"+node.Value+" refers to itself", "")
		return nil
	}
	t.following[node.Alias] = true
	defer delete(t.following, node.Alias)
	return t.value(path, node.Alias)
}

func (t *treeReader) mayRepeat(path string, node *yaml.Node) bool {
	t.repeated++
	if t.repeated == maxRepeated {
		t.add(path, node.Line, "the aliases unfold to too many values", "write the values out")
	}
	return t.repeated < maxRepeated
}

func (t *treeReader) object(path string, node *yaml.Node) any {
	members := make(map[string]any, len(node.Content)/2)
	lines := map[string]int{}
	var merged []any
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Tag == "!!merge" {
			merged = append(merged, t.value(path, value))
			continue
		}
		name, ok := t.key(path, key)
		if !ok {
			continue
		}
		at := schema.Member(path, name)
		if first, dup := lines[name]; dup {
			t.add(at, key.Line, fmt.Sprintf("duplicate key %q", name), fmt.Sprintf("it is first set on line %d", first))
			continue
		}
		lines[name] = key.Line
		members[name] = t.value(at, value)
	}
	merge(members, merged)
	return members
}

// merge adds the values of "<<": an object, or a list of objects of which the earlier win. Members
// that the object sets itself win over all of them.
func merge(members map[string]any, sources []any) {
	for _, source := range sources {
		switch source := source.(type) {
		case []any:
			merge(members, source)
		case map[string]any:
			for name, value := range source {
				if _, set := members[name]; !set {
					members[name] = value
				}
			}
		}
	}
}

// key reads the name of a member. Numbers and booleans are taken as their text, as kubectl does:
// some maps have ports as keys.
func (t *treeReader) key(path string, node *yaml.Node) (string, bool) {
	node = resolve(node)
	switch node.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return t.text(path, node), true
	}
	t.add(path, node.Line, "a key must be a string", "")
	return "", false
}

func (t *treeReader) text(path string, node *yaml.Node) string {
	if strings.ContainsRune(node.Value, 0) {
		t.add(path, node.Line, "must not contain the character NUL", "")
	}
	return node.Value
}

func (t *treeReader) scalar(path string, node *yaml.Node) any {
	switch tag := node.ShortTag(); tag {
	case "!!null":
		return nil
	case "!!str", "!!timestamp":
		return t.text(path, node)
	case "!!bool":
		var b bool
		if node.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if number, ok := jsonNumber(node); ok {
			return number
		}
	default:
		t.add(path, node.Line, "the tag "+tag+" is not supported", "")
		return nil
	}
	t.add(path, node.Line, `"`+node.Value+`" is not a JSON value`, "")
	return nil
}

// jsonNumber returns the number as written if that is valid JSON, otherwise in decimal digits.
func jsonNumber(node *yaml.Node) (json.Number, bool) {
	if json.Valid([]byte(node.Value)) {
		return json.Number(node.Value), true
	}
	var i int64
	if node.Decode(&i) == nil {
		return json.Number(strconv.FormatInt(i, 10)), true
	}
	var f float64
	if err := node.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return "", false
	}
	return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), true
}

// resolve follows document nodes and aliases to the node they stand for.
func resolve(node *yaml.Node) *yaml.Node {
	switch {
	case node.Kind == yaml.DocumentNode && len(node.Content) > 0:
		return resolve(node.Content[0])
	case node.Kind == yaml.AliasNode:
		return resolve(node.Alias)
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" || node.Kind == 0
}

// member returns the value of a key of a mapping, nil if there is none.
func member(node *yaml.Node, name string) *yaml.Node {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return resolve(node.Content[i+1])
		}
	}
	return nil
}

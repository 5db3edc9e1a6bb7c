package kinds

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Lines maps each path of a document to its line.
type Lines map[string]int

// linesOf does not follow aliases: a mistake behind one is reported at the alias, since the same
// node may be right elsewhere.
func linesOf(node *yaml.Node) Lines {
	l := Lines{}
	l.visit("", node)
	return l
}

func (l Lines) visit(path string, node *yaml.Node) {
	if _, known := l[path]; !known {
		l[path] = node.Line
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			at := schema.Member(path, node.Content[i].Value)
			if _, known := l[at]; !known {
				l[at] = node.Content[i].Line // the line of the key: the value may start below it
			}
			l.visit(at, node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			l.visit(schema.Item(path, i), item)
		}
	}
}

// nearest returns the line of the path, or of its closest ancestor that has one.
func (l Lines) nearest(path string) int {
	for {
		if line, ok := l[path]; ok || path == "" {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

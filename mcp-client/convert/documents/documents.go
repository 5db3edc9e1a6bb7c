// Package documents walks the documents of a YAML or JSON file that are no resources of a mesh.
package documents

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Document is one document of a file, or an item of a List.
type Document struct {
	Node *yaml.Node
	At   report.Place
}

// Each calls a function with each document of a file, until it fails.
func Each(file string, data []byte, do func(Document) error) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for index := 1; ; index++ {
		node := &yaml.Node{}
		if err := decoder.Decode(node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: document %d: %w", file, index, err)
		}
		if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
			node = node.Content[0]
		}
		for _, item := range itemsOf(node) {
			if err := do(Document{item, report.Place{File: file, Document: index, Line: item.Line, Kind: Text(item, "kind")}}); err != nil {
				return err
			}
		}
	}
}

// itemsOf are the documents of a list, or the document itself. What kubectl writes is of the kind List, and what a
// server answers of the kind ServiceList and the like.
func itemsOf(node *yaml.Node) []*yaml.Node {
	if items := Value(node, "items"); items != nil && items.Kind == yaml.SequenceNode {
		return items.Content
	}
	if node.Kind == yaml.SequenceNode {
		return node.Content
	}
	return []*yaml.Node{node}
}

// Value is the value of a key, or nil if there is none.
func Value(node *yaml.Node, name string) *yaml.Node {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// Text is the text of a key, or "" if there is none.
func Text(node *yaml.Node, name string) string {
	value := Value(node, name)
	if value == nil || value.Kind != yaml.ScalarNode {
		return ""
	}
	return value.Value
}

// IsObject reports whether a document has fields: an empty one has none, nor has a text.
func (d Document) IsObject() bool { return d.Node.Kind == yaml.MappingNode }

// Decode reads a document into what is known of its kind. Fields that are not known are left out.
func (d Document) Decode(into any) error {
	if err := d.Node.Decode(into); err != nil {
		return fmt.Errorf("%s: document %d, line %d: %s: %w", d.At.File, d.At.Document, d.At.Line, d.At.Kind, err)
	}
	return nil
}

// DecodeStrictly reads a document that may have no other fields.
func (d Document) DecodeStrictly(into any) error {
	text, err := yaml.Marshal(d.Node)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return decoder.Decode(into)
}

package output

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds"
)

// PrintTree prints a value in one of the tree formats.
func (p *Printer) PrintTree(v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	switch p.Output.Format {
	case YAML:
		return p.PrintExactly(kinds.YAML(text))
	case JSONPath, GoTemplate:
		return p.PrintTemplate(text)
	case CustomColumns:
		return p.printCustomColumns(text)
	case Table, Wide, Name, JSON, SARIF, GitHub, Terraform:
	}
	_, err = p.Out.Write(text)
	return err
}

// PrintMessage prints a message of an API as it came, fields without a value too.
func (p *Printer) PrintMessage(m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	tree, err := treeOf(text)
	if err != nil {
		return err
	}
	return p.PrintTree(tree)
}

// encodeJSON indents, and does not escape <, > and &.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return b.Bytes(), nil
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds"
)

// format is an output format.
type format string

const (
	table         format = "table"
	wide          format = "wide"
	yamlFormat    format = "yaml"
	jsonFormat    format = "json"
	nameFormat    format = "name"
	jsonPath      format = "jsonpath"
	customColumns format = "custom-columns"
)

var (
	formats = []format{table, wide, yamlFormat, jsonFormat, nameFormat}
	// templated formats take a template.
	templated = []format{jsonPath, customColumns}
)

const formatHelp = `how to print: table, wide, yaml, json, name, jsonpath=TEMPLATE or custom-columns=TITLE:PATH,...`

// output is the flag -o: a format and its template, if any.
type output struct {
	text   string // as given
	format format
	// path is the template of jsonpath, columns that of custom-columns.
	path    string
	columns []customColumn
}

// Set, String and Type implement the interface of a flag.
func (o *output) Set(text string) error {
	name, template, given := strings.Cut(text, "=")
	f := format(name)
	switch {
	case slices.Contains(formats, f) && !given:
		*o = output{text: text, format: f}
		return nil
	case !slices.Contains(templated, f):
		return fmt.Errorf("unknown format %q, expected one of %s", text, formatNames())
	case f == jsonPath:
		path, err := parsePath(template)
		*o = output{text: text, format: f, path: path}
		return err
	}
	columns, err := parseColumns(template)
	*o = output{text: text, format: f, columns: columns}
	return err
}

func formatNames() string {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	return strings.Join(append(names, "jsonpath=TEMPLATE", "custom-columns=TITLE:PATH,..."), ", ")
}

func (o *output) String() string { return o.text }

// Type is the flag's type in the help.
func (o *output) Type() string { return "format" }

// isTable reports whether the format is for people.
func (o *output) isTable() bool { return o.format == table || o.format == wide }

// isTree reports whether to print the whole answer, or pick from it with a template.
func (o *output) isTree() bool { return !o.isTable() && o.format != nameFormat }

// printTree prints a value in one of the tree formats.
func (p *printer) printTree(v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	switch p.output.format {
	case yamlFormat:
		return p.printExactly(kinds.YAML(text))
	case jsonPath:
		return p.printPath(text)
	case customColumns:
		return p.printCustomColumns(text)
	case table, wide, nameFormat, jsonFormat:
	}
	_, err = p.Out.Write(text)
	return err
}

// printMessage prints a message of an API as it came, fields without a value too.
func (p *printer) printMessage(m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	tree, err := treeOf(text)
	if err != nil {
		return err
	}
	return p.printTree(tree)
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

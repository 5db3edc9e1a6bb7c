package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// format is a way of printing.
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
	// templated formats are told by a template what to print.
	templated = []format{jsonPath, customColumns}
)

const formatHelp = `how to print: table, wide, yaml, json, name, jsonpath=TEMPLATE or custom-columns=TITLE:PATH,...`

// output is the flag -o: a format, and its template if it has one.
type output struct {
	text   string // as it was given
	format format
	// path is the template of jsonpath, columns are those of custom-columns.
	path    string
	columns []customColumn
}

// Set, String and Type make it a flag.
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

// Type names the flag's values in the help.
func (o *output) Type() string { return "format" }

// isTable tells whether people are to read it.
func (o *output) isTable() bool { return o.format == table || o.format == wide }

// isTree tells whether the whole of an answer is printed, or a template picks from it.
func (o *output) isTree() bool { return !o.isTable() && o.format != nameFormat }

// printTree writes a value that has a JSON form, in the format that was asked for.
func (p *Program) printTree(v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	switch p.output.format {
	case yamlFormat:
		return p.writeExactly(kinds.YAML(text))
	case jsonPath:
		return p.printPath(text)
	case customColumns:
		return p.printCustomColumns(text)
	case table, wide, nameFormat, jsonFormat:
	}
	return p.write(text, nil)
}

// encodeJSON indents, and leaves <, > and & as they are written.
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

package output

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
)

// Format is one of the forms in which answers are printed.
type Format string

// The formats.
const (
	Table         Format = "table"
	Wide          Format = "wide"
	YAML          Format = "yaml"
	JSON          Format = "json"
	Name          Format = "name"
	JSONPath      Format = "jsonpath"
	CustomColumns Format = "custom-columns"
	GoTemplate    Format = "go-template"
	// SARIF and GitHub are forms of problems alone.
	SARIF  Format = "sarif"
	GitHub Format = "github"
)

var (
	formats = []Format{Table, Wide, YAML, JSON, Name}
	// reports are forms of what is wrong, for the programs that show it beside the code.
	reports = []Format{SARIF, GitHub}
	// templated formats take a template.
	templated = []Format{JSONPath, CustomColumns, GoTemplate}
)

const formatHelp = `how to print: table, wide, yaml, json, name, jsonpath=TEMPLATE, custom-columns=TITLE:PATH,... or go-template=TEMPLATE`

// Choice is the flag -o: a format and its template, if any.
type Choice struct {
	text   string // as given
	Format Format
	// path is the template of jsonpath, columns that of custom-columns.
	path     string
	columns  []customColumn
	template *template.Template
}

// ChoiceOf chooses a format that takes no template.
func ChoiceOf(f Format) Choice { return Choice{text: string(f), Format: f} }

// Set, String and Type implement the interface of a flag.
func (o *Choice) Set(text string) error {
	name, written, given := strings.Cut(text, "=")
	f := Format(name)
	switch {
	case (slices.Contains(formats, f) || slices.Contains(reports, f)) && !given:
		*o = Choice{text: text, Format: f}
		return nil
	case !slices.Contains(templated, f):
		return fmt.Errorf("unknown format %q, expected one of %s", text, formatNames())
	case f == JSONPath:
		path, err := parsePath(written)
		*o = Choice{text: text, Format: f, path: path}
		return err
	case f == GoTemplate:
		parsed, err := parseTemplate(written)
		*o = Choice{text: text, Format: f, template: parsed}
		return err
	}
	columns, err := parseColumns(written)
	*o = Choice{text: text, Format: f, columns: columns}
	return err
}

// parseTemplate reads a template of Go.
func parseTemplate(text string) (*template.Template, error) {
	if text == "" {
		return nil, errors.New(`it needs a template, such as go-template='{{range .items}}{{.metadata.name}}{{"\n"}}{{end}}'`)
	}
	return template.New("output").Parse(text)
}

func formatNames() string {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	return strings.Join(append(names, "jsonpath=TEMPLATE", "custom-columns=TITLE:PATH,...", "go-template=TEMPLATE"), ", ")
}

func (o *Choice) String() string { return o.text }

// Type is the flag's type in the help.
func (o *Choice) Type() string { return "format" }

// IsTable reports whether the format is for people.
func (o *Choice) IsTable() bool { return o.Format == Table || o.Format == Wide }

// IsReport reports whether the format is one of problems alone.
func (o *Choice) IsReport() bool { return slices.Contains(reports, o.Format) }

// IsTree reports whether to print the whole answer, or pick from it with a template.
func (o *Choice) IsTree() bool { return !o.IsTable() && o.Format != Name }

// CompleteFormats adds no space after formats that end in "=" and take a template.
func CompleteFormats(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, f := range formats {
		names = append(names, string(f))
	}
	for _, f := range templated {
		names = append(names, string(f)+"=")
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

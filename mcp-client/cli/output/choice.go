package output

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/gotemplate"
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
	GoTemplate    Format = "go-template"
	CustomColumns Format = "custom-columns"
	// SARIF and GitHub are forms of problems alone.
	SARIF  Format = "sarif"
	GitHub Format = "github"
	// Terraform is a form of resources alone.
	Terraform Format = "terraform"
)

var (
	formats = []Format{Table, Wide, YAML, JSON, Name}
	// reports are forms of what is wrong, for the programs that show it beside the code.
	reports = []Format{SARIF, GitHub}
	// imports are forms in which other programs take resources over.
	imports = []Format{Terraform}
	// templated formats take a template.
	templated = []Format{JSONPath, GoTemplate, CustomColumns}
)

// The annotations of commands that print problems as reports for other programs, and resources for others to take over.
const (
	Reports = "reports"
	Imports = "imports"
)

const formatHelp = `how to print: table, wide, yaml, json, name, jsonpath=TEMPLATE, go-template=TEMPLATE or custom-columns=TITLE:PATH,...`

// Choice is the flag -o: a format and its template, if any.
type Choice struct {
	text   string // as given
	Format Format
	// path is the template of jsonpath, template that of go-template, columns that of custom-columns.
	path     string
	template *gotemplate.Template
	columns  []customColumn
}

// ChoiceOf chooses a format that takes no template.
func ChoiceOf(f Format) Choice { return Choice{text: string(f), Format: f} }

// Set, String and Type implement the interface of a flag.
func (o *Choice) Set(text string) error {
	name, written, given := strings.Cut(text, "=")
	if of, inFile := strings.CutSuffix(name, "-file"); inFile && (of == string(JSONPath) || of == string(GoTemplate)) {
		read, err := os.ReadFile(written)
		if err != nil {
			return fmt.Errorf("read the template: %w", err)
		}
		name, written = of, string(read)
	}
	f := Format(name)
	switch {
	case slices.Contains(slices.Concat(formats, reports, imports), f) && !given:
		*o = Choice{text: text, Format: f}
		return nil
	case !slices.Contains(templated, f):
		return fmt.Errorf("unknown format %q, expected one of %s", text, formatNames())
	case f == JSONPath:
		path, err := parsePath(written)
		*o = Choice{text: text, Format: f, path: path}
		return err
	case f == GoTemplate:
		template, err := parseGoTemplate(written)
		*o = Choice{text: text, Format: f, template: template}
		return err
	}
	columns, err := parseColumns(written)
	*o = Choice{text: text, Format: f, columns: columns}
	return err
}

func formatNames() string {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	return strings.Join(append(names, "jsonpath=TEMPLATE", "go-template=TEMPLATE", "custom-columns=TITLE:PATH,..."), ", ")
}

func (o *Choice) String() string { return o.text }

// Type is the flag's type in the help.
func (o *Choice) Type() string { return "format" }

// IsTable reports whether the format is for people.
func (o *Choice) IsTable() bool { return o.Format == Table || o.Format == Wide }

// IsTemplate reports whether the format picks from an answer by a template, and is no table.
func (o *Choice) IsTemplate() bool { return o.Format == JSONPath || o.Format == GoTemplate }

// IsReport reports whether the format is one of problems alone.
func (o *Choice) IsReport() bool { return slices.Contains(reports, o.Format) }

// IsImport reports whether the format is one of resources alone, for other programs.
func (o *Choice) IsImport() bool { return slices.Contains(imports, o.Format) }

// IsTree reports whether to print the whole answer, or pick from it with a template.
func (o *Choice) IsTree() bool { return !o.IsTable() && o.Format != Name }

// CompleteFormats adds no space after formats that end in "=" and take a template.
func CompleteFormats(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all := formats
	if cmd.Annotations[Reports] != "" {
		all = slices.Concat(all, reports)
	}
	if cmd.Annotations[Imports] != "" {
		all = slices.Concat(all, imports)
	}
	var names []cobra.Completion
	for _, f := range all {
		names = append(names, string(f))
	}
	for _, f := range templated {
		names = append(names, string(f)+"=")
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

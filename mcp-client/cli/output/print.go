// Package output prints what a command answers, in the form and the colours that the user chose.
package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Printer prints what a command answers, in the form and colours that the user chose.
type Printer struct {
	Out, Err io.Writer

	Output Choice
	// NoHeaders leaves out the titles of columns, and Labels adds a column with labels.
	NoHeaders, Labels bool
	// LabelColumns are labels that have a column each.
	LabelColumns []string
	// Single has each resource printed by itself, where there would be a List of them.
	Single bool
	tables map[*kinds.Kind]*table // of what is printed row by row, nil for what is printed once
	colors colors
	getenv func(string) string
}

// NewPrinter returns a printer to these files. getenv reads what the environment says of colours.
func NewPrinter(out, err io.Writer, getenv func(string) string) *Printer {
	p := &Printer{getenv: getenv}
	p.Out, p.Err = terminal.NewWriter(terminal.Exact(out), p.colored), terminal.NewWriter(terminal.Exact(err), nil)
	return p
}

// DeclareFlags declares -o and --color.
func (p *Printer) DeclareFlags(f *pflag.FlagSet) {
	p.Output = ChoiceOf(Table)
	f.VarP(&p.Output, "output", "o", formatHelp)
	p.colors = colorAuto
	f.Var(&p.colors, "color", "when to use colours: "+strings.Join(colorChoices, ", ")+" (auto: on a terminal, unless NO_COLOR is set)")
}

// PrintResources prints resources in the chosen format, with their statuses, which may be nil. In
// JSON and for templates, a resource requested by name is an object; otherwise the result is a List,
// even of one.
func (p *Printer) PrintResources(resources []*kinds.Resource, named bool, statuses Statuses) error {
	switch p.Output.Format {
	case YAML:
		return p.PrintExactly(statuses.writer().YAML(resources...))
	case JSON, JSONPath, GoTemplate, CustomColumns:
		if p.Single && p.Output.Format != CustomColumns {
			return p.printEach(resources, statuses.writer())
		}
		return p.printResourceTree(resources, named, statuses.writer())
	case Name:
		for _, r := range resources {
			if _, err := fmt.Fprintln(p.Out, words.Reference(r.Key())); err != nil {
				return err
			}
		}
		return nil
	case Terraform:
		return p.printImports(resources)
	case Table, Wide, SARIF, GitHub:
	}
	return p.printTables(resources, statuses)
}

func (p *Printer) printEach(resources []*kinds.Resource, w kinds.Writer) error {
	for i := range resources {
		if err := p.printResourceTree(resources[i:i+1], true, w); err != nil {
			return err
		}
	}
	return nil
}

// printImports prints blocks by which Terraform takes resources over, and tells how many are not its own to take: those
// of registries and of machines, which change by themselves.
func (p *Printer) printImports(resources []*kinds.Resource) error {
	var keys []kinds.Key
	left := 0
	for _, r := range resources {
		if _, machine := r.Annotations[kinds.MachineAnnotation]; machine || r.Origin() != "" {
			left++
			continue
		}
		keys = append(keys, r.Key())
	}
	if left > 0 {
		fmt.Fprintf(p.Err, "left out: %s of registries or of machines that register themselves\n", words.Counted(left, "resource", "resources"))
	}
	return p.Print(terraform.Imports(keys))
}

func (p *Printer) printResourceTree(resources []*kinds.Resource, named bool, w kinds.Writer) error {
	encode := w.List
	if named && len(resources) == 1 {
		encode = w.JSON
	}
	text, err := encode(resources...)
	switch {
	case err != nil:
		return err
	case p.Output.IsTemplate():
		return p.PrintTemplate(text)
	case p.Output.Format == CustomColumns:
		return p.printCustomColumns(text)
	}
	_, err = p.Out.Write(text)
	return err
}

// Print prints text for people.
func (p *Printer) Print(text string) error {
	_, err := p.Out.Write([]byte(text))
	return err
}

// Printf is Print of a formatted text.
func (p *Printer) Printf(format string, values ...any) error {
	return p.Print(fmt.Sprintf(format, values...))
}

// PrintExactly prints what programs read, such as YAML, without a change; only a terminal is shown
// control characters as escapes. It passes on the error of making the text.
func (p *Printer) PrintExactly(text []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = terminal.Exactly(p.Out).Write(text)
	return err
}

package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
)

// printer prints what a command answers, in the form and colours that the user chose.
type printer struct {
	Out, Err io.Writer

	output output
	colors colors
	getenv func(string) string
}

// newPrinter returns a printer to these files. getenv reads what the environment says of colours.
func newPrinter(out, err io.Writer, getenv func(string) string) *printer {
	p := &printer{getenv: getenv}
	p.Out, p.Err = terminal.NewWriter(terminal.Exact(out), p.colored), terminal.NewWriter(terminal.Exact(err), nil)
	return p
}

// declareFlags declares -o and --color.
func (p *printer) declareFlags(f *pflag.FlagSet) {
	p.output = output{text: string(table), format: table}
	f.VarP(&p.output, "output", "o", formatHelp)
	p.colors = colorAuto
	f.Var(&p.colors, "color", "when to use colours: "+strings.Join(colorChoices, ", ")+" (auto: on a terminal, unless NO_COLOR is set)")
}

// printResources prints resources in the chosen format. In JSON and for templates, a resource requested by name is an
// object; otherwise the result is a List, even of one.
func (p *printer) printResources(resources []*kinds.Resource, named bool) error {
	switch p.output.format {
	case yamlFormat:
		return p.printExactly(kinds.MarshalYAML(resources...))
	case jsonFormat, jsonPath, customColumns:
		return p.printResourceTree(resources, named)
	case nameFormat:
		for _, r := range resources {
			if _, err := fmt.Fprintln(p.Out, reference(r.Key())); err != nil {
				return err
			}
		}
		return nil
	case table, wide:
	}
	return p.printTables(resources)
}

func (p *printer) printResourceTree(resources []*kinds.Resource, named bool) error {
	encode := kinds.MarshalList
	if named && len(resources) == 1 {
		encode = kinds.MarshalJSON
	}
	text, err := encode(resources...)
	switch {
	case err != nil:
		return err
	case p.output.format == jsonPath:
		return p.printPath(text)
	case p.output.format == customColumns:
		return p.printCustomColumns(text)
	}
	_, err = p.Out.Write(text)
	return err
}

// print prints text for people.
func (p *printer) print(text string) error {
	_, err := p.Out.Write([]byte(text))
	return err
}

// printf is print of a formatted text.
func (p *printer) printf(format string, values ...any) error {
	return p.print(fmt.Sprintf(format, values...))
}

// printExactly prints what programs read, such as YAML, without a change; only a terminal is shown control characters
// as escapes. It passes on the error of making the text.
func (p *printer) printExactly(text []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = terminal.Exactly(p.Out).Write(text)
	return err
}

// printTables prints one table per kind, in order of first occurrence. If there are several, names include
// the kind.
func (p *printer) printTables(resources []*kinds.Resource) error {
	ofKind := map[*kinds.Kind][]*kinds.Resource{}
	var order []*kinds.Kind
	for _, r := range resources {
		if len(ofKind[r.Kind]) == 0 {
			order = append(order, r.Kind)
		}
		ofKind[r.Kind] = append(ofKind[r.Kind], r)
	}
	for i, kind := range order {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		if err := printTable(p.Out, kind, ofKind[kind], len(order) > 1, p.output.format == wide); err != nil {
			return err
		}
	}
	return nil
}

func printTable(out io.Writer, kind *kinds.Kind, resources []*kinds.Resource, qualified, wide bool) error {
	shown := columnsOf(kind, wide)
	w := newRows(out)
	header := []string{"NAME"}
	if kind.Namespaced {
		header = []string{"NAMESPACE", "NAME"}
	}
	for _, c := range shown {
		header = append(header, c.title)
	}
	w.row(append(header, "AGE")...)
	for _, r := range resources {
		cells, err := cellsOf(r, shown, wide)
		if err != nil {
			return err
		}
		name := r.Name
		if qualified {
			name = word(kind) + "/" + name
		}
		row := append([]string{name}, cells...)
		if kind.Namespaced {
			row = append([]string{r.Namespace}, row...)
		}
		w.row(append(row, age(r.CreateTime))...)
	}
	return w.Flush()
}

// rows are lines of cells. Flush aligns the columns, writes everything, and returns any error.
type rows struct{ *tabwriter.Writer }

func newRows(out io.Writer) *rows { return &rows{tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)} }

func (r *rows) row(cells ...string) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(r, "\t")
		}
		fmt.Fprint(r, terminal.Line(cell))
	}
	fmt.Fprintln(r)
}

// age formats the age of a resource, in a suitable unit.
func age(created time.Time) string {
	if created.IsZero() {
		return "-"
	}
	return span(time.Since(created))
}

// span formats a duration in a suitable unit.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

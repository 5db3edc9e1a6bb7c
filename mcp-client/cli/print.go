package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
)

// print prints resources in the chosen format. In JSON and for templates, a resource requested by name is an
// object; otherwise the result is a List, even of one.
func (p *Program) print(resources []*kinds.Resource, named bool) error {
	switch p.output.format {
	case yamlFormat:
		return p.writeExactly(kinds.MarshalYAML(resources...))
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

func (p *Program) printResourceTree(resources []*kinds.Resource, named bool) error {
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
	return p.write(text, nil)
}

func (p *Program) write(text []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = p.Out.Write(text)
	return err
}

// writeExactly is write for output that programs parse, such as YAML, which must not be escaped: control characters are
// escaped only on a terminal.
func (p *Program) writeExactly(text []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = terminal.Exactly(p.Out).Write(text)
	return err
}

// printTables prints one table per kind, in order of first occurrence. If there are several, names include
// the kind.
func (p *Program) printTables(resources []*kinds.Resource) error {
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
	w := aligned(out)
	header := []string{"NAME"}
	if kind.Namespaced {
		header = []string{"NAMESPACE", "NAME"}
	}
	for _, c := range shown {
		header = append(header, c.title)
	}
	writeRow(w, append(header, "AGE"))
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
		writeRow(w, append(row, age(r.CreateTime)))
	}
	return w.Flush()
}

// aligned returns a writer that aligns columns when flushed.
func aligned(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 3, ' ', 0) }

// writeRow writes a row. Flush returns any error.
func writeRow(w *tabwriter.Writer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, terminal.Line(cell))
	}
	fmt.Fprintln(w)
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

package output

import "slices"

// Listing is a uniform list with all its printed forms.
type Listing struct {
	Tree          any // for YAML, JSON and templates
	names         []byte
	Columns, Wide []string // columns for -o wide only; they follow the others
	rows          [][]string
}

// Add adds a row with one cell per column.
func (l *Listing) Add(name string, cells ...string) {
	l.names = append(append(l.names, name...), '\n')
	l.rows = append(l.rows, cells)
}

// PrintListing prints a listing in the chosen form.
func (p *Printer) PrintListing(l Listing) error {
	switch {
	case p.Output.IsTree():
		return p.PrintTree(l.Tree)
	case p.Output.Format == Name:
		return p.Print(string(l.names))
	}
	columns := l.Columns
	if p.Output.Format == Wide {
		columns = slices.Concat(l.Columns, l.Wide)
	}
	w := NewRows(p.Out)
	if !p.NoHeaders {
		w.Row(columns...)
	}
	for _, cells := range l.rows {
		w.Row(cells[:len(columns)]...)
	}
	return w.Flush()
}

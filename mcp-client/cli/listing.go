package cli

import "slices"

// listing is a uniform list with all its printed forms.
type listing struct {
	tree          any // for YAML, JSON and templates
	names         []byte
	columns, wide []string // columns for -o wide only; they follow the others
	rows          [][]string
}

// add adds a row with one cell per column.
func (l *listing) add(name string, cells ...string) {
	l.names = append(append(l.names, name...), '\n')
	l.rows = append(l.rows, cells)
}

func (p *printer) printListing(l listing) error {
	switch {
	case p.output.isTree():
		return p.printTree(l.tree)
	case p.output.format == nameFormat:
		return p.print(string(l.names))
	}
	columns := l.columns
	if p.output.format == wide {
		columns = slices.Concat(l.columns, l.wide)
	}
	w := newRows(p.Out)
	w.row(columns...)
	for _, cells := range l.rows {
		w.row(cells[:len(columns)]...)
	}
	return w.Flush()
}

package cli

import "slices"

// listing is a list of what has one shape, in all the forms that it can be printed in.
type listing struct {
	tree          any // as YAML, JSON and templates have it
	names         []byte
	columns, wide []string // wide ones come after the others, and only where they are asked for
	rows          [][]string
}

// add takes what stands under each of the columns.
func (l *listing) add(name string, cells ...string) {
	l.names = append(append(l.names, name...), '\n')
	l.rows = append(l.rows, cells)
}

func (p *Program) printListing(l listing) error {
	switch {
	case p.output.isTree():
		return p.printTree(l.tree)
	case p.output.format == nameFormat:
		return p.write(l.names, nil)
	}
	columns := l.columns
	if p.output.format == wide {
		columns = slices.Concat(l.columns, l.wide)
	}
	w := aligned(p.Out)
	writeRow(w, columns)
	for _, cells := range l.rows {
		writeRow(w, cells[:len(columns)])
	}
	return w.Flush()
}

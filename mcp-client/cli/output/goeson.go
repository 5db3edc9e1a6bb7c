package output

import "github.com/pgmesh/pgmesh/kinds"

// table is one that is being printed.
type table struct {
	*Rows

	origins bool // it has a column for where resources come from
}

// GoOn has rows that are printed later go on with the table of their kind: without titles, and with the columns and the widths that
// it had so far, as kubectl does.
func (p *Printer) GoOn() { p.tables = map[*kinds.Kind]*table{} }

// table is the one of a kind, nil for that of custom columns, and whether rows of it have been printed already.
func (p *Printer) table(kind *kinds.Kind) (t *table, goesOn bool) {
	if t = p.tables[kind]; t != nil {
		return t, true
	}
	t = &table{Rows: NewRows(p.Out)}
	if p.tables != nil {
		t.kept = &[]int{}
		p.tables[kind] = t
	}
	return t, false
}
